"""Consume, transform, produce in one process, without Spark."""
