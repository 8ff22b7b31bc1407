"""A broker that has joined a cluster: what its image's changes mean to it."""
