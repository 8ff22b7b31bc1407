"""`Advertising`: the address for clients of a listener, told once somebody knows it: the port of a container, say, that
the engine has chosen.

Always true: each listener is told one address, once. Only listeners that wait for it can be told.
"""

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from eosin.settings.listeners import Listener, check_advertised, parse_listener
from eosin.settings.settings import SettingError

PATH: Final = "/api/v1/advertise"
MOST_BYTES: Final = 4096
"""Of a request."""


class ListenerAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A listener's clients reach it at this address."""

    address: str
    """HOST:PORT."""
    listener: str = ""
    """Its name; not needed where one alone waits."""


class NotAdvertised(Exception):
    """The address is not taken. The text says why."""

    def __init__(self, status: int, why: str) -> None:
        """`status` is that of the HTTP answer."""
        super().__init__(why)
        self.status: Final = status


class Advertising:
    """The listeners that wait for an address, and those that have got one."""

    def __init__(self, held: Collection[str], advertise: Callable[[str, str, int], None]) -> None:
        """`held` are their names. `advertise` carries out a decision: name, host and port."""
        self._told: Final[dict[str, str]] = dict.fromkeys(held, "")
        self._advertise = advertise

    def tell(self, body: bytes) -> ListenerAddress:
        """Take what a request says; returns it with the listener's name. Raises `NotAdvertised`."""
        try:
            asked = msgspec.json.decode(body, type=ListenerAddress)
        except msgspec.DecodeError as wrong:
            raise NotAdvertised(400, f'this needs {{"listener": NAME, "address": "HOST:PORT"}}: {wrong}') from None
        name = asked.listener or self._only()
        if name not in self._told:
            waiting = ", ".join(self._told)
            raise NotAdvertised(404, f"listener {name} does not wait for an address; those that do: {waiting}")
        try:
            found = parse_listener(f"{name}://{asked.address}", key="address")
            check_advertised([found], [found])
        except SettingError:
            raise NotAdvertised(
                400, f"address must be HOST:PORT that clients can connect to, not {asked.address!r}"
            ) from None
        self._once(found)
        return ListenerAddress(found.address, name)

    def _only(self) -> str:
        if len(self._told) > 1:
            raise NotAdvertised(400, f"say which listener it is: {', '.join(self._told)}")
        return next(iter(self._told))

    def _once(self, found: Listener) -> None:
        before = self._told[found.name]
        if before and before != found.address:
            raise NotAdvertised(409, f"clients of {found.name} are told {before} already, until the broker stops")
        if not before:
            self._told[found.name] = found.address
            self._advertise(found.name, found.host, found.port)
