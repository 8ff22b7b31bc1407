"""Records of consumer groups: written, and read back."""
