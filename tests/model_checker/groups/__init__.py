"""Everything that can happen to a small consumer group (KIP-848), within bounds, over the code that decides. See
docs/testing/model.md."""
