"""The control API of a broker of the lab, over HTTP (docs/lab.md)."""
