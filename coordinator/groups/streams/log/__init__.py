"""Records of streams groups: written, and read back."""
