"""The results of appends and reads, as values: the words of every part of storage and of its callers."""
