"""What happens to a transaction. Pure: no clock, no chance, no waiting, no files."""
