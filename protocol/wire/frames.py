"""Cuts a byte stream into frames, without doing any I/O.

A frame is an int32 size and that many bytes. The caller receives straight into the decoder's memory, as
`asyncio.BufferedProtocol` does it, and gets frames as views of that memory: nothing is copied but the start of a frame
that did not fit behind its predecessors.

    view = decoder.get_buffer()             # where the next bytes go
    frames = decoder.received(sock.recv_into(view))
    ...                                     # frames, and messages decoded from them, may be kept as long as needed
    decoder.release()                       # no frame or message is used any more: the memory may be used again

Always true: memory that frames may still view is never written again. While frames are out, new bytes go behind them,
and when no room is left there, into fresh memory. A decoder that is released and holds no part of a frame has no
memory: it gives it to the `SpareBuffers` that connections share, so an idle connection costs none.
"""

import struct
from typing import Final

from eosin.protocol.keys import ApiKey
from eosin.protocol.wire.frame_memory import Claim, FrameMemory, FrameSender, Share
from eosin.protocol.wire.headers import SIZE_BYTES

_SIZE: Final = struct.Struct(">i")
_PRODUCE: Final = ApiKey.PRODUCE.to_bytes(2, "big")

BUFFER_BYTES: Final = 65536
"""Memory of one connection; a frame that is larger gets memory of its own."""

SMALL_PRODUCE_BYTES: Final = 1 << 20
"""A Produce request may be so large whoever sends it: that it may not write is a matter of the response."""

LARGE_PART: Final = 4
"""A frame that does not fit the buffer leaves it when it fills one part of so many: who announces much and sends
little holds nothing but its buffer."""

LEAST_ROOM_BYTES: Final = 4096
"""The decoder does not ask for less than this, so that a receive is worth its system call."""

_HTTP: Final = frozenset((b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "))


MAX_SPARE: Final = 64
"""Buffers that are kept for the next connection that receives something: 4 MiB."""

_NONE: Final = memoryview(b"")


class FrameError(Exception):
    """The stream holds no frames. Nothing after this point has a meaning; the connection is closed."""


class FrameTooLarge(FrameError):
    """A frame is larger than its reader takes."""


class TlsAlert(FrameError):
    """The peer speaks TLS, and refuses what we sent."""


class HttpAnswer(FrameError):
    """The peer speaks HTTP, and answers so."""


class SpareBuffers:
    """Memory of decoders that need none now, for those that do. The last one given is the first one taken: the
    processor has it in its cache."""

    def __init__(self, *, buffer_bytes: int = BUFFER_BYTES, memory: FrameMemory | None = None) -> None:
        """`memory` is for frames that do not fit a buffer; without it they have no limit."""
        self.buffer_bytes: Final = buffer_bytes
        self.memory: Final = FrameMemory() if memory is None else memory
        self.free: Final[list[memoryview]] = []
        """At most `MAX_SPARE` of them."""


class FrameDecoder:
    """Cuts the bytes of one connection into frames."""

    def __init__(
        self,
        max_frame_bytes: int,
        *,
        spare: SpareBuffers | None = None,
        max_control_bytes: int = 0x7FFFFFFF,
        sender: FrameSender | None = None,
    ) -> None:
        """Frames are at most `max_frame_bytes` long (`socket.request.max.bytes`), their size prefix not counted, and
        `max_control_bytes` if they do not begin with the key of Produce. Only a frame that does not fit the buffer is
        compared with the latter. `sender` is told when a frame that had to wait may go on; without it none may have
        to."""
        shared = SpareBuffers() if spare is None else spare
        self.max_frame_bytes = max_frame_bytes
        """May be changed between two frames."""
        self._max_control_bytes: Final = max_control_bytes
        self._sender = sender
        self._memory = shared.memory
        self.is_waiting = False
        """True if there is no memory for the rest of the large frame that has begun: nothing must be received."""
        self._share: Share | None = None
        self._claim: Claim | None = None
        """The large frame that has begun."""
        self.complete: Claim | None = None
        """The large frame that was handed out, until its request begins."""
        self.finished = 0
        """Frames that were handed out."""
        self._free: Final = shared.free
        self._buffer_bytes: Final = shared.buffer_bytes
        self._buffer = _NONE  # taken when bytes arrive: most connections are silent most of the time
        self._start = 0
        """Index at which the first incomplete frame begins."""
        self._end = 0
        """Index of the next byte to be received."""
        self._lent = False
        """True if frames may view the buffer before `_start`."""
        self._needed = SIZE_BYTES
        """Bytes of the incomplete frame, with its size, as far as that is known."""
        self._large: memoryview | None = None
        """Memory of a frame that does not fit the buffer, once it has begun to take any; `_end` counts in it while it
        fills."""
        self._first = True

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Memory for the next bytes: never empty. The hint is ignored, as the protocol of asyncio allows."""
        if self._large is not None:
            assert self._claim is not None
            return self._large[self._end : self._claim.taken]
        if not self._buffer:
            self._buffer = self._free.pop() if self._free else memoryview(bytearray(self._buffer_bytes))
            return self._buffer
        if self._start == self._end and not self._lent:
            self._start = self._end = 0
        room = len(self._buffer) - self._end
        if room < self._start + self._needed - self._end or (room < LEAST_ROOM_BYTES and self._start > 0):
            self._make_room()
        return self._buffer[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """The frames that `count` more bytes complete. Raises FrameError; frames before the bad one are lost too."""
        self._end += count
        if self._large is not None:
            return self._large_came(self._large)
        frames = []
        buffer, start, end = self._buffer, self._start, self._end
        while end - start >= SIZE_BYTES:
            (size,) = _SIZE.unpack_from(buffer, start)
            if self._first or not 0 <= size <= self.max_frame_bytes:
                self._check(size)
            stop = start + SIZE_BYTES + size
            if stop > end:
                self._needed = SIZE_BYTES + size
                break
            frames.append(buffer[start + SIZE_BYTES : stop])
            start = stop
        else:
            self._needed = SIZE_BYTES
        self._start = start
        if frames:
            self._lent = True
            self.finished += len(frames)
        if self._needed > self._buffer_bytes:
            self._large_begins()
        return frames

    @property
    def begun_bytes(self) -> int:
        """The bytes that have come of an incomplete frame, with its size; 0 between two frames."""
        return self._end + SIZE_BYTES if self._large is not None else self._end - self._start

    def release(self) -> None:
        """Frames that were handed out, and views of them, are no longer used: their memory may be written again, also
        for another connection."""
        self._lent = False
        if self._start == self._end and self._large is None and self._buffer:
            if len(self._free) < MAX_SPARE:
                self._free.append(self._buffer)
            self._buffer = _NONE
            self._start = self._end = 0

    def belongs_to(self, memory: FrameMemory | None = None) -> None:
        """Large frames from now on are of another owner, and take `memory` if it is given."""
        self._share = None
        if memory is not None:
            self._memory = memory

    def begun(self) -> None:
        """The requests that were handed out have begun, or it is for the broker to begin them."""
        if self.complete is not None:
            self.complete.memory.ended(self.complete)
            self.complete = None

    def go_on(self) -> None:
        """There is memory for what comes next of the frame that waited."""
        self.is_waiting = False
        if self._large is None:
            self._leave_buffer()

    def drop_large(self) -> None:
        """Nothing more comes: give up the large frame that has begun, and its turn."""
        claim, self._claim = self._claim, None
        self._share = self.complete = None
        self.is_waiting = False
        if claim is not None:
            claim.memory.gone(claim)
        if self._large is not None:
            self._large = None
            self._end = self._start

    def forget_sender(self) -> None:
        """The sender is gone."""
        self._sender = None

    def _make_room(self) -> None:
        """Move the incomplete frame to where all of it fits: to the front, or out of the way of frames in use."""
        begun = self._buffer[self._start : self._end]
        if self._lent or not self._buffer:
            self._buffer = self._free.pop() if self._free else memoryview(bytearray(self._buffer_bytes))
            self._lent = False
        self._buffer[: len(begun)] = begun
        self._start, self._end = 0, len(begun)

    def _large_begins(self) -> None:
        """Look at a frame that does not fit the buffer, and let it leave the buffer when enough of it came."""
        size, came = self._needed - SIZE_BYTES, self._end - self._start - SIZE_BYTES
        if came >= len(_PRODUCE):
            self._check_key(size, bytes(self._buffer[self._start + SIZE_BYTES :][: len(_PRODUCE)]))
        if came < self._buffer_bytes // LARGE_PART:
            return
        if self._share is None:
            self._share = self._memory.share(self._sender)
        self._claim = Claim(self._memory, self._share, size)
        if self._memory.request(self._claim):
            self._leave_buffer()
        else:
            self.is_waiting = True

    def _leave_buffer(self) -> None:
        assert self._claim is not None
        begun = self._buffer[self._start + SIZE_BYTES : self._end]
        self._large = self._claim.new_memory()
        self._large[: len(begun)] = begun
        self._end = self._claim.came = len(begun)

    def _large_came(self, large: memoryview) -> list[memoryview]:
        claim = self._claim
        assert claim is not None
        claim.came = self._end
        if self._end < claim.size:
            if self._end == claim.taken:
                self.is_waiting = not claim.memory.request(claim)
            return []
        if self._sender is None:
            claim.memory.ended(claim)
        else:
            self.complete = claim
        self._large = self._claim = None
        self._end = self._start  # the buffer holds nothing but frames that were handed out before this one
        self._needed = SIZE_BYTES
        self.finished += 1
        return [large]

    def _check_key(self, size: int, key: bytes) -> None:
        """Refuse a large request as soon as its key is there. Of another API than Produce, what it becomes when it is
        decoded is many times its size, and nobody needs so much of it; and what may be written nowhere is not
        received."""
        if key != _PRODUCE:
            if size > self._max_control_bytes:
                number = int.from_bytes(key, "big", signed=True)
                limit = self._max_control_bytes
                raise FrameError(f"a request of {size} bytes with API key {number}, at most {limit} are allowed")
        elif size > SMALL_PRODUCE_BYTES and self._sender is not None and not self._sender.may_write():
            limit = SMALL_PRODUCE_BYTES
            raise FrameError(f"a Produce request of {size} bytes, at most {limit} of a user who may write to no topic")

    def _check(self, size: int) -> None:
        """Refuse an impossible size. At the start of a connection, name the protocol that the peer seems to speak."""
        greeting = _SIZE.pack(size)
        if self._first and greeting.startswith(b"\x16\x03"):
            raise FrameError("the peer speaks TLS to a plaintext listener")
        if self._first and greeting.startswith(b"\x15\x03"):
            raise TlsAlert("the peer speaks TLS, and sent an alert")
        if self._first and greeting == b"HTTP":
            raise HttpAnswer("the peer answers in HTTP")
        if self._first and greeting in _HTTP:
            raise FrameError("the peer speaks HTTP to a Kafka listener")
        if size < 0:
            raise FrameError(f"a frame of {size} bytes")
        if size > self.max_frame_bytes:
            raise FrameTooLarge(f"a frame of {size} bytes, at most {self.max_frame_bytes} are allowed")
        self._first = False
