"""Produce: batches on their way to a log, those that take long to check, and those that were refused for now."""
