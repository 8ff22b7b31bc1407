"""A small asyncio Kafka client on `eosin.protocol` alone."""
