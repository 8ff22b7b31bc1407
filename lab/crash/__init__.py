"""Ends of a broker and starts after them: crashes, restarts, snapshots, and instances that fence each other."""
