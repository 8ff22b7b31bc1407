"""The `eosin` command: one module per sub-command."""
