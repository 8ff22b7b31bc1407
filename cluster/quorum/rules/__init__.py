"""The cluster's image, and what records of the metadata log make of it, purely (cluster.md 1)."""
