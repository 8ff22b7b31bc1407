"""The runner: consume, transform and produce in one process, without Spark."""
