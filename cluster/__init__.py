"""The state of the cluster and its changes: metadata, the quorum, membership, replication, peers, links."""
