"""The producers of a partition: sequences, open transactions, guards and snapshots."""
