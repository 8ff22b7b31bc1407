"""Connections whose peers log in by SASL (security.md 3)."""
