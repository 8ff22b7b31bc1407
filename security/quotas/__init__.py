"""Rates, and what is left of them (security.md 5)."""
