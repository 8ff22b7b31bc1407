"""Rules for the life of a group. Pure: no clock, no chance, no waiting, no files."""
