"""Schemas of the records that internal topics hold."""
