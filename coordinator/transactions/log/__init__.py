"""Records of `__transaction_state`: written, read back, and checked against the partitions."""
