"""Files: partition logs, their indexes and producer state, in Apache Kafka's on-disk format."""
