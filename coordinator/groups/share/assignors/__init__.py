"""Assignors: which members of a share group read which partition. Pure."""
