"""Connections of a broker to other brokers and to controllers: TLS, and who it says it is there (cluster.md 7)."""
