"""What happens to a group. Pure: no clock, no chance, no waiting, no files."""
