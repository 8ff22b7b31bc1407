"""`Listener`: a named address, as the broker binds it or as it tells clients; and the protocol that each name speaks.

Written `NAME://HOST:PORT` in a properties file (Kafka's form) and `[NAME=]HOST:PORT` on the command line.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from eosin.settings.settings import SettingError

DEFAULT_LISTENER: Final = "PLAINTEXT"
EVERY_LISTENER: Final = "*"
"""All of them, where a setting names some."""
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The protocols of listeners, in the order of Kafka's numbers."""
TLS_PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
PROTOCOL_MAP: Final = "listener.security.protocol.map"
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
        """True if the host means every address of the machine, which no client can connect to."""
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
    return Listener(name, found["six"] or found["host"] or "", int(found["port"]))


def parse_listeners(texts: Sequence[str], *, key: str) -> tuple[Listener, ...]:
    """Read listeners, each with a name of its own. Raises `SettingError`."""
    return _parsed_listeners(tuple(texts), key)


@lru_cache(maxsize=64)  # a start reads the same few again and again
def _parsed_listeners(texts: tuple[str, ...], key: str) -> tuple[Listener, ...]:
    listeners = tuple(parse_listener(text, key=key) for text in texts)
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(
                f"{key} names {name} twice; each listener needs a name of its own, as in INSIDE=broker:9092"
            )
    return listeners


def protocol_map(texts: Sequence[str]) -> dict[str, str]:
    """`listener.security.protocol.map`: the protocol of each listener, by names in upper case."""
    entries = (text.partition(":") for text in texts)
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in entries}


def protocols_of(names: Sequence[str], entries: Sequence[str]) -> dict[str, str]:
    """The protocol of each of the listeners `names` (security.md 2.1): as the map `entries` says, else the one that has
    its name. A name of one's own that is not mapped is PLAINTEXT, but only where every other one is, too: a forgotten
    entry must not become an open door. Raises `SettingError`."""
    return dict(_protocols_of(tuple(names), tuple(entries)))


@lru_cache(maxsize=64)
def _protocols_of(names: tuple[str, ...], entries: tuple[str, ...]) -> Mapping[str, str]:
    mapped = protocol_map(entries)
    for name, protocol in mapped.items():
        if protocol not in PROTOCOLS:
            raise SettingError(f"{PROTOCOL_MAP} must map {name} to one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    known = {name: mapped.get(name, name if name in PROTOCOLS else "") for name in names}
    secured = any(protocol not in ("", "PLAINTEXT") for protocol in known.values())
    for name, protocol in known.items():
        if not protocol and secured:
            raise SettingError(f"{PROTOCOL_MAP} must say what {name} speaks, as in {name}:PLAINTEXT or {name}:SSL")
    return {name: protocol or "PLAINTEXT" for name, protocol in known.items()}


def check_ports(listeners: Sequence[Listener]) -> None:
    """Refuse a port that two listeners share, unless one has an IPv4 and the other an IPv6 address (KIP-797). Raises
    `SettingError`."""
    for at, one in enumerate(listeners):
        for other in listeners[:at]:
            is_pair = (":" in one.host) is not (":" in other.host)
            if one.port == other.port != 0 and not is_pair:
                raise SettingError(f"listeners must have ports of their own, but {other} and {one} share {one.port}")


def check_advertised(
    listeners: Sequence[Listener], advertised: Sequence[Listener], *, told_otherwise: Collection[str] = ()
) -> None:
    """Refuse an advertised address without a listener, and a listener that clients could not be told. Those whose
    names are in `told_otherwise` may bind every address: clients are told another one than that.

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
        if listener.is_wildcard and listener.name not in told and listener.name not in told_otherwise:
            raise SettingError(
                f"listener {listener} binds every address; say which one clients shall use, with --advertise"
                f" {listener.name}=HOST:{listener.port or 'PORT'} or advertised.listeners"
            )
