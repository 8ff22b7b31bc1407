"""Explain the state of a thing in one sentence: facts from every source that knows them, and the words for them
(console.md 3)."""
