"""An exhaustive check of the transaction coordinator and of what partitions decide (docs/testing.md)."""
