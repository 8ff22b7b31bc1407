"""Clients' connections: accepted, limited, watched, and carried from bytes to responses."""
