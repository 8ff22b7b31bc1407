"""Metrics: plain counters of their owners, read at a scrape (console.md 4.2)."""
