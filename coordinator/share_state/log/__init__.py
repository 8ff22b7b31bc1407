"""Records of `__share_group_state`: written, and read back."""
