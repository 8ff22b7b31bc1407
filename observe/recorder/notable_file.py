"""`NotableFile`: notable events outlive a restart, as lines of JSON in `eosin-recorder.jsonl` (console.md 2.4).

Always true: it is written off the event loop, about once a second, and never synced: what a crash takes of it costs
explanations, never data. It has `FILES` files of `FILE_BYTES` at most. A damaged line is skipped.
"""

import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from eosin.observe.recorder.events import Notable
from eosin.storage.disk.interfaces import Disk

_LOG: Final = logging.getLogger(__name__)

NAME: Final = "eosin-recorder.jsonl"
FILE_BYTES: Final = 1024 * 1024
FILES: Final = 4
WRITE_MS: Final = 1000
MOST_WAITING: Final = 2000
"""Events that wait to be written; more than that in a second are not kept."""
MOST_READ: Final = 10_000
"""Events that a start takes back: some 50 ms."""


class Kept(msgspec.Struct, frozen=True):
    """One line."""

    id: str
    event: Notable


class NotableFile:
    """The file in one data directory."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        path = f"{data_dir}/{NAME}"
        self._paths = (path, *(f"{path}.{age}" for age in range(1, FILES)))
        """The newest first. Files, since Apache Kafka refuses a directory that is no partition."""
        self._waiting: list[Kept] = []
        self._has_failed = False

    def add(self, transactional_id: str, notable: Notable) -> None:
        """Keep an event with the next write."""
        if len(self._waiting) < MOST_WAITING and not self._has_failed:
            self._waiting.append(Kept(transactional_id, notable))

    async def write(self) -> None:
        """Write what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                await self._disk.off_loop(self._append, b"".join(msgspec.json.encode(each) + b"\n" for each in waiting))
            except OSError as error:
                self._has_failed = True  # a full disk has better uses for its room
                _LOG.warning("notable events of transactions are not kept any more: %s", error)

    def read(self) -> list[Kept]:
        """The last events that are in the files, oldest first. Blocks."""
        lines: list[bytes] = []
        for path in reversed(self._paths):
            try:
                lines += self._disk.read_whole(path).splitlines()
            except OSError:
                continue
        return list(_read(lines[-MOST_READ:]))

    def _append(self, data: bytes) -> None:
        disk, paths = self._disk, self._paths
        size = disk.size(paths[0])
        if size is not None and size + len(data) > FILE_BYTES:
            for older, newer in zip(reversed(paths[1:]), reversed(paths[:-1]), strict=True):
                if disk.size(newer) is not None:
                    disk.rename(newer, older)
        file = disk.open(paths[0], create=True)
        try:
            file.append((data,))
        finally:
            file.close()


def _read(lines: list[bytes]) -> Iterator[Kept]:
    decoder = msgspec.json.Decoder(Kept)
    for line in lines:
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError:
            continue
