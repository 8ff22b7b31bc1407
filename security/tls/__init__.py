"""TLS on the broker's side: stores, contexts, the layer below a connection, and the names that certificates give."""
