"""Rules of consumer groups (KIP-848). Pure: no clock, no chance, no waiting, no files."""
