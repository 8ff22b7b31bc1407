"""What a partition knows of its producers: sequences, open transactions, guards and snapshots."""
