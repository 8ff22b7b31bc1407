"""The decisions of a share partition, pure: no time, no waiting, no files."""
