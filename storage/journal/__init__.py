"""The journal: one file for what many logs append, so that one sync makes all of it durable (adr/0027)."""
