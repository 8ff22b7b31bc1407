"""Assignors: which members of a streams group run which tasks. Pure."""
