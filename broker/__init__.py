"""The responses of a broker: one handler per API, and what they have in common."""
