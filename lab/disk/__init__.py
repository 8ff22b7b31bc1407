"""A disk in memory that lies on purpose, and syncs that rules hold up."""
