"""Compaction: keeping the latest record of each key (storage.md 14). `cleaner.py` is the way in."""
