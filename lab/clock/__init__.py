"""The clock of a broker of the lab: virtual time, which a test moves (docs/testing-applications.md)."""
