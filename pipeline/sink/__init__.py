"""Writes a micro-batch in one transaction: routes, leases of partitions, rows and their encoding."""
