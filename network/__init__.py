"""From the socket to a request: listeners, connections, exchanges, APIs, TLS, SASL, quotas."""
