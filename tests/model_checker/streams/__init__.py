"""The model of a small streams group: its coordinator as it is, members that behave as those of Kafka Streams, and all
that can happen between them (docs/testing/model.md)."""
