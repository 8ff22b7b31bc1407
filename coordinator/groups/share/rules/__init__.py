"""Rules of share groups (KIP-932). Pure: no clock, no chance, no waiting, no files."""
