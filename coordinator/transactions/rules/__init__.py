"""Rules for the life of a transaction. Pure: no clock, no chance, no waiting, no files."""
