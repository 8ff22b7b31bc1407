"""Kafka's programs as health checks, init containers and entry points call them in an image: small front ends to what
`eosin` does."""
