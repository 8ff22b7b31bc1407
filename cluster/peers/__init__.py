"""Other brokers of the cluster: markers that they write for us, transactions that they verify (cluster.md 6.7, 6.8)."""
