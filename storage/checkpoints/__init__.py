"""Checkpoints: state saved now and then, so that a start has little to recover."""
