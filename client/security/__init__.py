"""TLS and SASL for connections of ours: Kafka's client settings, and what they do to a connection (security.md 1.6)."""
