"""Decisions about streams groups. Pure."""
