"""The disk as storage uses it: `Disk` and `File`, as protocols.

The promises here hold for every implementation: an `append` either writes everything or changes nothing; a file's
`size` is what has been written through this object; nothing keeps bytes in user space. Calls block and may be made from
any thread, but `append`, `truncate`, `pin` and `close` of one file only from the thread that owns it. Cold work leaves
the event loop through `Disk.off_loop`.
"""

import errno
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, ParamSpec, Protocol, TypeVar

from eosin.storage.disk.open_files import OpenFiles

Buffer = bytes | bytearray | memoryview
"""Bytes of one-byte items, so that `len` counts bytes."""

LACKING_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of opening alone: nothing was written or synced, so the call may be tried again."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class UnusableDirectory(OSError):
    """A data directory that must not be worked on; its text is one sentence that says why."""


class DirectoryInUse(UnusableDirectory):
    """Another process works on this directory."""


class TornWrite(OSError):
    """A write stopped half-way, and its bytes could not be cut off again."""


class FreeBytes(NamedTuple):
    """The room of a file system."""

    free: int
    """Bytes that this process may still use."""
    total: int
    """Bytes in all."""


class File(Protocol):
    """An open file: appended to at its end, read anywhere."""

    path: str
    size: int
    """Bytes."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all of `buffers` at the end, to the page cache. Raises OSError with nothing changed, or TornWrite."""

    def read(self, position: int, size: int) -> Buffer:
        """`size` bytes from `position` on, fewer at the end of the file."""

    def read_now(self, position: int, size: int) -> Buffer | None:
        """As `read`, but None when that would wait for the device."""

    def send(self, descriptor: int, position: int, size: int) -> int | None:
        """Have a non-blocking socket take at most `size` bytes from `position` on: how many it took, 0 at the end.
        None when that would wait for the device. Raises BlockingIOError when the socket takes nothing now."""

    def sync(self) -> None:
        """Wait until everything appended is durable."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def allocate(self, size: int) -> None:
        """Make the file `size` bytes long and have the device hold room for all of them. Raises OSError, after which
        it may have any size in between."""

    @property
    def is_pinned(self) -> bool:
        """True if it was pinned and not unpinned yet."""

    def pin(self) -> None:
        """Keep the descriptor open beyond `close`, until `unpin`: a thread is using it."""

    def unpin(self) -> None:
        """Undo one `pin`."""

    def close(self) -> None:
        """Give the descriptor back, as soon as nothing pins it. Does not sync."""


class WholeSync(Protocol):
    """Syncs a whole file system."""

    def run(self) -> None:
        """Wait until every write and every name on it is durable, of any process. Raises OSError when one of them,
        since this object was made, is not."""

    def waiting_bytes(self) -> int:
        """About how many bytes are not written yet, of any process: `run` may have to wait for all of them."""

    def close(self) -> None:
        """Give the descriptor back."""


class FixedFile(Protocol):
    """An open file whose size never changes: written and read anywhere in it, by one thread at a time."""

    path: str
    size: int
    """Bytes."""

    def write(self, position: int, data: Buffer) -> None:
        """Write over what is at `position`, to the page cache. Raises OSError with any part of it written."""

    def read(self, position: int, size: int) -> Buffer:
        """`size` bytes from `position` on, fewer at the end of the file."""

    def sync(self) -> None:
        """Wait until everything written is durable."""

    def close(self) -> None:
        """Give the descriptor back. Does not sync."""


class Lock(Protocol):
    """An exclusive lock that is held."""

    def release(self) -> None:
        """Release it."""


class Disk(Protocol):
    """A tree of files. Paths use `/`."""

    volatile: bool
    """True if nothing on it outlives the process, so that syncing is pointless."""

    open_files: OpenFiles
    """The segments that hold a descriptor."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for appending and reading. Raises FileNotFoundError unless `create`."""

    def preallocate(self, path: str, size: int) -> None:
        """Make a file of `size` zeros, of which every byte has its place on the device; durable on return, but for its
        name. Its earlier content is lost. Raises OSError, and leaves nothing then, if the disk lets it."""

    def open_fixed(self, path: str) -> FixedFile:
        """Open a file to write over parts of it. Raises FileNotFoundError."""

    def read_whole(self, path: str) -> bytes:
        """A file's content. Raises FileNotFoundError."""

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace a file's content: a reader sees the old or the new one. Durable on return if `durable`."""

    def sync_file(self, path: str) -> None:
        """Wait until a file's content is durable."""

    def sync_directory(self, path: str) -> None:
        """Wait until the names in a directory are durable."""

    def whole_sync(self, path: str) -> WholeSync | None:
        """A sync of the whole file system of `path`; None where that promises less than syncing each file."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, replacing a file that has it."""

    def unlink(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; nothing happens if it exists."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; nothing happens if it is not there."""

    def list(self, path: str) -> list[str]:
        """The names in a directory, sorted. Raises FileNotFoundError."""

    def is_directory(self, path: str) -> bool:
        """True if `path` is a directory."""

    def size(self, path: str) -> int | None:
        """Bytes of a file; None when there is none."""

    def modified_ms(self, path: str) -> int:
        """Time of a file's last change, ms since the epoch."""

    def identity(self, path: str) -> str:
        """A mark that a copy of the file does not have, even with the same name, content and times; empty where there
        is none. Raises FileNotFoundError."""

    def free_bytes(self, path: str) -> FreeBytes | None:
        """The room of the file system that `path` is on; None when there is no limit. Raises OSError."""

    def lock(self, path: str) -> Lock:
        """Take the exclusive lock that the file `path` stands for. Raises DirectoryInUse."""

    async def off_loop(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run blocking work where it does not hold up the event loop."""

    async def compute(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run work that takes long for what it computes, not for the disk, and changes nothing: in a thread on a disk
        without files, too."""
