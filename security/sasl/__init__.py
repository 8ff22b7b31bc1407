"""Authentication by SASL on the broker's side (security.md 3)."""
