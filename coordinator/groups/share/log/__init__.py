"""Records of share groups: written, and read back."""
