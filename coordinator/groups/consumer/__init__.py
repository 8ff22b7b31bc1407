"""Consumer groups whose members are assigned by the coordinator (KIP-848)."""
