"""The flight recorder: what happened to each transactional id, in bounded memory (console.md 2)."""
