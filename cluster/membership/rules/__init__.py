"""How a broker becomes a member of its cluster, stays one and leaves, decided purely (cluster.md 2)."""
