"""The file of a recorded run, and the folder of a run. The file is JSON lines in one frame of zstd; files of earlier
versions are lines as they are.

Always true: a file is there as a whole or not at all, and one that has lost its end, or is damaged, is refused with
words about that.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from eosin.lab.common.errors import LabError

FILE: Final = "run.jsonl.zst"
MOST_BYTES: Final = 1 << 30
"""Of the lines of a file: more would be one that somebody has made to fill a memory."""
TAKEN: Final = f"replay takes the {FILE} of `eosin lab run --out DIR`, and the files of `pytest --eosin-save DIR`"
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_LOCK: Final = ".lock"
"""A file in the folder of a run, which the run holds."""
_NEW: Final = ".new"
_PIECE: Final = 1024
"""Unpacked at a time, to 32 MiB at most."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Have a folder alone until the end: two runs would write their words into the same files. Raises LabError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = (folder / _LOCK).open("a")
    except OSError as error:
        raise LabError(f"cannot write to {folder}: {error.strerror}") from None
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another run writes to {folder}: wait for it, or name another --out") from None
        yield


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file with these lines. Raises OSError, and leaves what was there before."""
    import zstandard

    text = b"".join(each + b"\n" for each in lines)
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(text)
    written = path.with_name(path.name + _NEW)
    try:
        written.write_bytes(packed)
        os.replace(written, path)
    except OSError:
        with suppress(OSError):
            written.unlink()
        raise


def lines_in(path: Path) -> list[bytes]:
    """The lines of a file of this or an earlier version. Raises LabError."""
    try:
        found = path.read_bytes()
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from None
    if not found:
        raise LabError(f"{path} is empty: {TAKEN}")
    text = _unpacked(path, found) if found.startswith(_MAGIC) else found
    if not text.endswith(b"\n") and text.startswith(b'{"line":'):
        raise _cut(path)
    return text.splitlines()


def _unpacked(path: Path, packed: bytes) -> bytes:
    import zstandard

    unpacking = zstandard.ZstdDecompressor().decompressobj()
    text, place = bytearray(), 0
    try:
        while place < len(packed) and not unpacking.eof:
            text += unpacking.decompress(packed[place : place + _PIECE])
            place += _PIECE
            if len(text) > MOST_BYTES:
                raise LabError(f"{path} has more than {MOST_BYTES >> 20} MiB of lines, as no recorded run has: {TAKEN}")
    except zstandard.ZstdError as error:
        raise LabError(f"{path} is damaged ({error}): take another copy of it, or record the run again") from None
    if not unpacking.eof:
        raise _cut(path)
    return bytes(text)


def _cut(path: Path) -> LabError:
    return LabError(f"{path} ends in the middle: take a whole copy of it, or record the run again")
