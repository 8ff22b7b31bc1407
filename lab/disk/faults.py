"""`Fault`: calls of a disk that fail."""

import random
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

LASTING: Final = 1 << 62
"""Calls that a fault meets until it is taken out."""
_GLOB: Final = frozenset("*[")


@dataclass
class Fault:
    """The next `times` calls of `call` on a path that contains `path` fail; reads fail until it is taken out."""

    call: str
    error: int
    path: str = ""
    times: int = 1
    written: int | None = 0
    """Bytes that a write leaves before it fails; None: as many as chance has it, which may take them back, too."""
    torn: bool = False
    """True if bytes of an append cannot be taken back."""

    def is_on(self, path: str) -> bool:
        """True for a path that contains `self.path`, or ends as that says where it has `*` or `[`."""
        wanted = self.path
        return fnmatchcase(path, f"*{wanted}") if _GLOB.intersection(wanted) else wanted in path

    def leaves_nothing(self, chance: random.Random | None) -> bool:
        """True if an append that fails leaves nothing."""
        return not self.torn if chance is None or self.written is not None else chance.random() < 0.5

    def failure(self, path: str) -> OSError:
        """The error of a call on `path`."""
        return OSError(self.error, "injected", path)
