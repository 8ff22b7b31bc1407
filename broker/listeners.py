"""`Listener`: a named address, as the broker binds it or as it tells clients.

Written `NAME://HOST:PORT` in a properties file (Kafka's form) and `[NAME=]HOST:PORT` on the command line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eosin.broker.config.settings import SettingError

DEFAULT_LISTENER: Final = "PLAINTEXT"
_SECURE: Final = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_WRITTEN: Final = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_.-]+)(?:=|://))?(?:\[(?P<six>[0-9A-Fa-f:.%]*)\]|(?P<host>[^\s:/\[\]=]*)):(?P<port>[0-9]{1,5})"
)


@dataclass(frozen=True, slots=True)
class Listener:
    """A name, a host and a port (0: any free one)."""

    name: str
    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Whether the host means every address of the machine, which no client can connect to."""
        return self.host in ("", "0.0.0.0", "::")

    @property
    def address(self) -> str:
        """`HOST:PORT`, with brackets around an IPv6 host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


def parse_listener(text: str, *, key: str) -> Listener:
    """Read one listener in either form. Raises `SettingError`."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65535:
        raise SettingError(f"{key} must be [NAME=]HOST:PORT or NAME://HOST:PORT with a port up to 65535, not {text!r}")
    name = (found["name"] or DEFAULT_LISTENER).upper()
    if name in _SECURE:
        raise SettingError(
            f"{key} asks for {name}, but Eosin serves plain TCP only; use PLAINTEXT or a name of your own"
        )
    return Listener(name, found["six"] or found["host"] or "", int(found["port"]))


def parse_listeners(texts: Sequence[str], *, key: str) -> tuple[Listener, ...]:
    """Read listeners, each with a name of its own. Raises `SettingError`."""
    listeners = tuple(parse_listener(text, key=key) for text in texts)
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(
                f"{key} names {name} twice; each listener needs a name of its own, as in INSIDE=broker:9092"
            )
    return listeners


def check_advertised(listeners: Sequence[Listener], advertised: Sequence[Listener], *, wildcards: bool = False) -> None:
    """Refuse an advertised address without a listener, and a listener that clients could not be told; with
    `wildcards`, one that binds every address is told by the name of this machine.

    Raises `SettingError`.
    """
    bound = {listener.name for listener in listeners}
    told = {listener.name for listener in advertised}
    for listener in advertised:
        if listener.name not in bound:
            raise SettingError(f"advertised.listeners names {listener.name}, but no listener has that name")
        if listener.is_wildcard or listener.port == 0:
            raise SettingError(
                f"advertised.listeners must be addresses that clients can connect to, not {listener.address!r}"
            )
    for listener in listeners:
        if listener.is_wildcard and listener.name not in told and not wildcards:
            raise SettingError(
                f"listener {listener} binds every address; say which one clients shall use, with --advertise"
                f" {listener.name}=HOST:{listener.port or 'PORT'} or advertised.listeners"
            )
