"""Pure decisions of a leader and of a follower of a partition (cluster.md 4)."""
