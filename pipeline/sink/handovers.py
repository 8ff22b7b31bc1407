"""Notes in a query's checkpoint: the batches that the function of `foreachBatch` has handed over to the sink.

A function need not hand over every batch (`if not frame.isEmpty(): sink(frame, batch)`), and the sink hears nothing of
the others. By the notes it tells those from batches whose markers were lost, after a restart as well.

Always true: a note is there before anything of its batch is written; it names the run of the query, and Spark calls the
function once for each batch of a run, so a second call of one run is not a replay; and the notes of a batch stay until
a later batch is committed.
"""

from typing import Protocol
from urllib.parse import quote


class Files(Protocol):
    """Empty files in a checkpoint."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, which need not exist."""

    def create(self, file: str) -> bool:
        """Create a file and the folder above it. False if the file is there already."""

    def delete(self, file: str) -> None:
        """Delete a file, if it is there."""


class Handovers:
    """The notes of one pipeline, for one run of its query: a file for each, `<batch>.<id of the run>`."""

    def __init__(self, files: Files, pipeline: str, run: str) -> None:
        self._files = files
        self._folder = f"sink-{quote(pipeline, safe='')}"
        self._run = run

    def note(self, batch: int) -> bool:
        """Note that a batch is handed over. False if this run has handed it over before."""
        return self._files.create(f"{self._folder}/{batch}.{self._run}")

    def last_before(self, batch: int) -> int | None:
        """The last batch before this one that was handed over, in any run; None if there was none."""
        return max((each for each, _ in self._notes() if each < batch), default=None)

    def forget_before(self, batch: int) -> None:
        """Delete the notes of earlier batches: `batch` is committed."""
        for each, name in self._notes():
            if each < batch:
                self._files.delete(f"{self._folder}/{name}")

    def _notes(self) -> list[tuple[int, str]]:
        numbered = ((name.partition(".")[0], name) for name in self._files.names(self._folder))
        return [(int(number), name) for number, name in numbered if number.isdecimal()]
