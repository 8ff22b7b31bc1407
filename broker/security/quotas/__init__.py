"""Quotas: how much of the broker a user, a client id or an address may use, and what happens beyond (security.md 5)."""
