"""Decides purely how a broker becomes a member of its cluster, stays one and leaves (cluster.md 2)."""
