"""From topics to rows: ranges of offsets, and the readers of them."""
