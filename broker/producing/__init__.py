"""Produce: reading a request, batches that take long to check, and those that were refused for now."""
