"""Fetch: one pass over partitions, sessions, and requests that wait for more."""
