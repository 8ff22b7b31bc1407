"""One module per API: what it does, its checks, and one call into the owner of the state."""
