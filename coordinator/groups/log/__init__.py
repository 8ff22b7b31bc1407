"""Records of `__consumer_offsets`: written, and read back."""
