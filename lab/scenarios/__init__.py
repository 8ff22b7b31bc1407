"""Incidents that applications meet in production, each a function that stages one."""
