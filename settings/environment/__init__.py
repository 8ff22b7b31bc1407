"""The variables of Kafka's container images as a source of settings."""
