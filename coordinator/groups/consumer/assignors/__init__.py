"""Assignors: which member of a consumer group reads which partition. Pure."""
