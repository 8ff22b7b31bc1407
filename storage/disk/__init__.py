"""Disks as storage sees them: interfaces, the system's files, memory, flushing, and the data directory."""
