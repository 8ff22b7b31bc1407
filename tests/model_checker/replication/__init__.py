"""Everything that can happen to the replicas of one partition, within bounds, over the code that decides. See
docs/testing.md."""
