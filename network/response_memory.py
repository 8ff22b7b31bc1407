"""`ResponseMemory`: how much memory the answers to Fetch may hold, over all connections.

Records of an answer lie in memory where they are few, or in ranges of files, of which a slow reader has one piece in
memory at a time. Always true: an answer may hold an eighth of what is free, so readers that never read leave the later
ones smaller and smaller shares and never none: beyond the limit an answer still has its first batch (KIP-74), and a
slow reader still gets pieces of `LEAST_PIECE_BYTES`.
"""

from typing import Final

DEFAULT_LIMIT_BYTES: Final = 67_108_864
RESPONSE_BYTES: Final = 1_048_576
"""One answer holds no more, however much is free."""
PIECE_BYTES: Final = 65_536
LEAST_PIECE_BYTES: Final = 4096
_SHARE: Final = 8


class ResponseMemory:
    """The limit, and what is held. Those who hold something count it in `held_bytes`, and out again."""

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def response_bytes(self) -> int:
        """Number of bytes that the next response may hold in memory; its first batch comes in any case."""
        return min(RESPONSE_BYTES, self._share())

    def piece_bytes(self) -> int:
        """Number of bytes of its response that a slow reader may hold in memory."""
        return max(LEAST_PIECE_BYTES, min(PIECE_BYTES, self._share()))

    def _share(self) -> int:
        return max(0, self.limit_bytes - self.held_bytes) // _SHARE
