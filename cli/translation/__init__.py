"""Command lines as users of Kafka's tools, kcat and rpk type them, in the words of `eosin`."""
