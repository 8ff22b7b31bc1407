"""A broker's process: assembles what the rooms below offer, starts it and ends it."""
