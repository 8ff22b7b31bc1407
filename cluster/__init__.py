"""What the cluster is and how it changes: metadata, the quorum, membership, replication, peers, links."""
