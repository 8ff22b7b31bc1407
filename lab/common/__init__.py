"""Errors and values that all parts of the lab share."""
