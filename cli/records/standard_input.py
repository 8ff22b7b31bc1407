"""Standard input as lines, read beside the event loop: a pipe, a file or a terminal.

Owns a thread, since a file or a terminal cannot be waited for by the loop of every platform. Always true: at most
`AHEAD_BYTES` and one read wait here, so a fast writer waits for a slow broker; the last line needs no line break.
"""

import asyncio
import os
import threading
from typing import Final

READ_BYTES: Final = 1024 * 1024
AHEAD_BYTES: Final = 4 * 1024 * 1024
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""More than any broker takes in one record; what is longer is no text file."""


class LineTooLong(Exception):
    """The input has a line that cannot be one record."""


class UnreadableInput(Exception):
    """The input cannot be read, or not to its end: what has come is not all."""


class StandardInput:
    """The lines of a file descriptor. Make it in the event loop that takes them."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._room = threading.Condition()
        self._read: list[bytes] = []
        self._waiting_bytes = 0
        self._something = asyncio.Event()
        self._ended = False
        self._failed: OSError | None = None
        """The error that ended it early; None if it ended by itself."""
        self._rest: list[bytes] = []
        """The beginning of a line whose end has not been read."""
        self._rest_bytes = 0
        # Nothing ends a read from a terminal: the process does not wait for this thread.
        threading.Thread(target=self._read_all, name="standard input", daemon=True).start()

    async def lines(self) -> list[bytes]:
        """The lines that have come since the last call, without their line breaks: waits for one; none at the end.
        Raises LineTooLong, and UnreadableInput after what could be read."""
        while True:
            await self._something.wait()
            data, ended = self._pop_read()
            if not data:
                if not ended:  # it was taken together with what came before
                    continue
                if self._failed is not None:
                    raise UnreadableInput(f"standard input cannot be read: {self._failed.strerror}")
                last = b"".join(self._rest)
                self._rest, self._rest_bytes = [], 0
                return [last] if last else []
            whole, line_break, rest = data.rpartition(b"\n")
            if line_break:
                self._rest.append(whole)
                found = b"".join(self._rest).split(b"\n")
                self._rest, self._rest_bytes = [rest], len(rest)
                return found
            self._rest.append(data)
            self._rest_bytes += len(data)
            if self._rest_bytes > MAX_LINE_BYTES:
                raise LineTooLong(f"is longer than {MAX_LINE_BYTES // 1024 // 1024} MiB")

    def _pop_read(self) -> tuple[bytes, bool]:
        with self._room:
            data = b"".join(self._read)
            self._read.clear()
            self._waiting_bytes = 0
            self._room.notify()
            if not self._ended:
                self._something.clear()
            return data, self._ended

    def _read_all(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except OSError as error:
                data, self._failed = b"", error
            with self._room:
                self._read.append(data)
                self._waiting_bytes += len(data)
                self._ended = not data
                try:
                    self._loop.call_soon_threadsafe(self._something.set)
                except RuntimeError:  # the loop has ended
                    return
                if self._ended:
                    return
                while self._waiting_bytes > AHEAD_BYTES:
                    self._room.wait()
