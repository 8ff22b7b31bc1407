"""Spark's door to topics: `format("eosin")`, with the option names of Spark's own Kafka source and sink."""
