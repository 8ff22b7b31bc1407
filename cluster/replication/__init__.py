"""Partitions with replicas on several brokers: leading them and following them (cluster.md 4)."""
