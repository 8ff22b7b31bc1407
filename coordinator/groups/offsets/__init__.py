"""Committed offsets: the requests, what is written, and what is visible."""
