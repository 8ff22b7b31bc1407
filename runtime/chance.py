"""Chance, as a parameter: every random id and every jitter goes through one `Chance`, so that a seed replays a run."""

import random
from typing import Protocol


class Chance(Protocol):
    """The one source of randomness."""

    def uuid(self) -> bytes:
        """16 random bytes, never all zero and never starting (as text) with `-`."""

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""


class SystemChance:
    """Chance from the operating system's generator: clients see member, topic and session ids, and must not be able to
    compute the ids of other clients from them."""

    def __init__(self) -> None:
        self._random: random.Random = random.SystemRandom()

    def uuid(self) -> bytes:
        while True:
            # The text form is base64, whose first character comes from the top six bits: 0b111110 is `-`.
            raw = self._random.randbytes(16)
            if raw[0] >> 2 != 0b111110 and any(raw):
                return raw

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class SeededChance(SystemChance):
    """Chance that a seed replays, for tests."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)
