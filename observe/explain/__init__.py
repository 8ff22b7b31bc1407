"""Why something is as it is, in one sentence: facts from wherever they are known, and the words for them
(console.md 3)."""
