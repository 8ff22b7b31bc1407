"""Shared by the commands: options, connections, how output is written and how a command ends."""
