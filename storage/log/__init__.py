"""One partition's log: segments, appending, reading, validation and retention."""
