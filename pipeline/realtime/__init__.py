"""Real-time Mode: rows go from Spark's tasks to the broker within milliseconds, each once."""
