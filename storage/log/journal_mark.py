"""The mark of a truncated log: which groups of the journal hold nothing of it any more.

A journal still has the batches that a follower has cut off, and would bring them back. So before a follower cuts its
log, all of it is synced, and then the mark is written into its directory: entries of this log in groups up to the mark
are void. Always true: the mark is durable before the first file is cut, and names the journal that it speaks of, since
each start begins another.
"""

from typing import Final, NamedTuple

from eosin.storage.disk.checkpoint_formats import MalformedCheckpoint

FILE_NAME: Final = "eosin-journal-mark"
WHOLE_JOURNAL: Final = 2**63 - 1
"""The sequence that no group of a journal is behind."""


class JournalMark(NamedTuple):
    """Up to where the entries of one log are void."""

    journal_id: bytes
    sequence: int
    """Of the last group in which they are."""

    def encode(self) -> bytes:
        """The file's content."""
        return f"version: 0\njournal: {self.journal_id.hex()}\nsequence: {self.sequence}\n".encode()

    @classmethod
    def decode(cls, data: bytes) -> "JournalMark":
        """The mark in a file's content. Raises MalformedCheckpoint."""
        values = dict(line.split(": ", 1) for line in data.decode(errors="replace").splitlines() if ": " in line)
        try:
            if values["version"] != "0":
                raise ValueError(values["version"])
            return cls(bytes.fromhex(values["journal"]), int(values["sequence"]))
        except (KeyError, ValueError) as error:
            raise MalformedCheckpoint(f"{FILE_NAME}: {data!r}") from error
