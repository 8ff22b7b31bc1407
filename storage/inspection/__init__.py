"""Reads files without changing them: their content, and whether they agree with each other.

Nothing here takes a lock, and every file may be growing while it is read.
"""
