"""`KnownAddresses`: from where somebody has proved who it is, since this broker started (security.md 5.7).

Always true: at most `MOST` addresses are kept, and the one whose last login is longest ago goes first.
"""

from typing import Final

MOST: Final = 10_000


class KnownAddresses:
    """The addresses of one broker, IPv6 ones by their /64."""

    def __init__(self) -> None:
        self._addresses: dict[str, None] = {}

    def __contains__(self, address: str) -> bool:
        return address in self._addresses

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, address: str) -> None:
        """Somebody at `address` has proved who it is."""
        self._addresses.pop(address, None)
        self._addresses[address] = None
        if len(self._addresses) > MOST:
            del self._addresses[next(iter(self._addresses))]
