"""Notes in a query's checkpoint: the batches that the function of `foreachBatch` has handed over to the sink.

A function need not hand over every batch (`if not frame.isEmpty(): sink(frame, batch)`), and the sink hears nothing of
the others. By the notes it tells those from batches whose markers were lost, after a restart as well.

Always true: a note is there before anything of its batch is written; it names the run of the query, and Spark calls the
function once for each batch of a run, so a second call of one run is not a replay; and the notes of a batch stay until
a later batch is committed.
"""

from typing import Final, Protocol
from urllib.parse import quote

_TWICE: Final = "twice"


class Files(Protocol):
    """Empty files in a checkpoint."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, which need not exist."""

    def create(self, file: str) -> bool:
        """Create a file and the folder above it. False if the file is there already."""

    def delete(self, file: str) -> None:
        """Delete a file, if it is there."""


class Handovers:
    """The notes of one pipeline, for one run of its query: a file for each, `<batch>.<id of the run>`; and
    `<batch>.twice` for a batch that lacks a second frame."""

    def __init__(self, files: Files, pipeline: str, run: str) -> None:
        self._files = files
        self._folder = f"sink-{quote(pipeline, safe='')}"
        self._run = run
        self._notes: dict[str, int] | None = None
        """The batch of each file, as far as this run has seen: another sink that writes there fences this one."""

    def note(self, batch: int) -> bool:
        """Note that a batch is handed over. False if this run has handed it over before."""
        name = f"{batch}.{self._run}"
        if not self._files.create(f"{self._folder}/{name}"):
            return False
        self._known()[name] = batch
        return True

    def note_second_frame(self, batch: int) -> None:
        """Note that a batch is committed without a second frame that the sink was given for it."""
        name = f"{batch}.{_TWICE}"
        self._files.create(f"{self._folder}/{name}")
        self._known()[name] = batch

    @property
    def lacks_a_frame(self) -> int | None:
        """The last batch that is committed without its second frame; None if there is none."""
        return max((each for name, each in self._known().items() if name.endswith(f".{_TWICE}")), default=None)

    def last_before(self, batch: int) -> int | None:
        """The last batch before this one that was handed over, in any run; None if there was none."""
        return max((each for each in self._known().values() if each < batch), default=None)

    def forget_before(self, batch: int) -> None:
        """Delete the notes of earlier batches: `batch` is committed."""
        known = self._known()
        for name in [name for name, each in known.items() if each < batch]:
            self._files.delete(f"{self._folder}/{name}")
            del known[name]

    def _known(self) -> dict[str, int]:
        """The notes in the folder, with their numbers. The folder is listed once: listing for each batch would cost
        more than the notes."""
        if self._notes is None:
            numbered = {name: name.partition(".")[0] for name in self._files.names(self._folder)}
            self._notes = {name: int(number) for name, number in numbered.items() if number.isdecimal()}
        return self._notes
