"""Transactions and groups: the decisions (pure) and the services that carry them out."""
