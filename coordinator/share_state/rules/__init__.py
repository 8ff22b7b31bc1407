"""The rules of the share coordinator: pure."""
