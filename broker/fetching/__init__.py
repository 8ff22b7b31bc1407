"""Fetch: sessions, requests that wait for more, and partitions that are gone."""
