"""Quotas on the way of a request: what it costs its connection."""
