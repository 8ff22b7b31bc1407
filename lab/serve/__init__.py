"""The command `eosin lab`."""
