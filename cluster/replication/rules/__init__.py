"""What a leader and a follower of a partition decide, purely (cluster.md 4)."""
