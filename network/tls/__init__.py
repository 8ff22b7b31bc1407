"""TLS below the connections of listeners (security.md 2)."""
