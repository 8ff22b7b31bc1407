"""`BrokerOptions`: how a broker of the lab is to be. Checked before anything starts.

Always true: the settings are the broker's own names, checked as in a configuration file.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eosin.lab.behaviours import BEHAVIOURS, DEFAULT_BEHAVIOUR
from eosin.lab.common.errors import LabError, unknown
from eosin.lab.history.recording import LEVELS, PROTOCOL
from eosin.lab.nodes.table import FIRST_LISTENER, MOST_NODES, listener_names
from eosin.node.configuration import load_config
from eosin.settings.broker import DURABILITIES, BrokerConfig
from eosin.settings.first_topics import FirstTopic
from eosin.settings.listeners import PROTOCOL_MAP, PROTOCOLS, parse_listener
from eosin.settings.settings import SettingError

if TYPE_CHECKING:
    from eosin.lab.crash.snapshot import Snapshot

Topics = Iterable[str] | Mapping[str, int]
"""Names, each of one partition, or the number of partitions by name."""

MEMORY: Final = "memory"
FSYNC: Final = "fsync"
LAB: Final = "lab"
LAB_DIR: Final = "/lab"
"""The data directory on the lab's own disk."""
READY_MADE: Final = (
    "open-transaction",
    "open-at-last-epoch",
    "prepared-commit",
    "prepared-abort",
    "hanging",
    "expired-id",
    "big-group",
    "aborted-tail",
)
"""Names of ready-made snapshots (docs/testing-applications.md)."""
LISTENERS: Final = "listeners"
HIGHEST_PORT: Final = 65535
FLOWING: Final = "flowing"
FROZEN: Final = "frozen"
_HEARTBEAT_MS: Final = "500"
"""The interval of members of the newer groups: they hear of the next step of a rebalance by their next heartbeat."""
LAB_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        **{
            f"group.{kind}.{setting}heartbeat.interval.ms": _HEARTBEAT_MS
            for kind in ("consumer", "share", "streams")
            for setting in ("min.", "")
        },
        "group.streams.initial.rebalance.delay.ms": "0",
        "eosin.recorder.max.bytes": "1048576",
        "eosin.shutdown.timeout.ms": "500",
    }
)
"""Settings of a broker that lives for a test and not for years; `settings` may say otherwise."""


class BrokerOptions(msgspec.Struct, frozen=True):
    """The options of one broker, as all kinds of brokers take them."""

    topics: dict[str, int]
    """The number of partitions by name."""
    settings: dict[str, str]
    durability: str = FSYNC
    host: str = "127.0.0.1"
    port: int = 0
    strict_clients: bool = False
    disk: str = LAB
    """`lab`, `memory`, or the path of a data directory."""
    seed: int | None = None
    """Of what happens by chance; None is any."""
    clock: str = FLOWING
    clock_at: int | None = None
    """The time of its clock at the beginning, in ms since the epoch; None is now."""
    record: str = PROTOCOL
    """The level of the history that is kept: one of `LEVELS`."""
    behaviour: str = DEFAULT_BEHAVIOUR
    """One of `BEHAVIOURS`."""
    nodes: int = 1
    """The number of nodes in front of it."""

    @property
    def again(self) -> dict[str, Any]:
        """The arguments of one more broker like this, on a port of its own."""
        return {
            "topics": self.topics,
            "settings": self.settings,
            "durability": self.durability,
            "host": self.host,
            "strict_clients": self.strict_clients,
            "disk": self.disk,
            "seed": self.seed,
            "clock": self.clock,
            "clock_at": self.clock_at,
            "record": self.record,
            "behaviour": self.behaviour,
            "nodes": self.nodes,
        }

    @property
    def data_dir(self) -> str | None:
        """The data directory; None where nothing is written."""
        return {LAB: LAB_DIR, MEMORY: None}.get(self.disk, self.disk)

    @property
    def first_topics(self) -> tuple[FirstTopic, ...]:
        """The topics, which the broker makes before it serves anybody."""
        return tuple(FirstTopic(name, partitions) for name, partitions in self.topics.items())

    @property
    def _listeners(self) -> dict[str, str]:
        """A listener for each node; with a port they have it and the next ones."""
        told = self.settings.get(LISTENERS)
        if self.nodes == 1:
            return {LISTENERS: told or f"{FIRST_LISTENER}://{_bracketed(self.host)}:{self.port}"}
        protocol, host, port = FIRST_LISTENER, self.host, self.port
        if told is not None:
            listener = parse_listener(told, key=LISTENERS)
            protocol, host, port = listener.name, listener.host, listener.port
        names = listener_names(self.nodes)
        ports = [port and port + number for number in range(self.nodes)]
        each = (f"{name}://{_bracketed(host)}:{port}" for name, port in zip(names, ports, strict=True))
        return {LISTENERS: ",".join(each), PROTOCOL_MAP: ",".join(f"{name}:{protocol}" for name in names)}

    def config(self) -> BrokerConfig:
        """The settings of the broker. Raises LabError."""
        log_dir = self.data_dir
        flags = {
            **LAB_SETTINGS,
            **BEHAVIOURS[self.behaviour],
            "eosin.durability": self.durability,
            **({} if log_dir is None else {"log.dirs": log_dir}),
            **self.settings,
            **self._listeners,
        }
        return _config_of(tuple(sorted(flags.items())))


def options_of(
    *,
    topics: Topics = (),
    settings: Mapping[str, object] | None = None,
    durability: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    strict_clients: bool = False,
    disk: str | Path = LAB,
    seed: int | None = None,
    clock: str = FLOWING,
    clock_at: int | None = None,
    record: str = PROTOCOL,
    behaviour: str = DEFAULT_BEHAVIOUR,
    nodes: int = 1,
) -> BrokerOptions:
    """The checked options. Raises LabError."""
    if clock not in (FLOWING, FROZEN):
        raise LabError(f"clock is {FLOWING} or {FROZEN}, not {clock!r}")
    if clock_at is not None and not isinstance(clock_at, int):
        raise LabError(f"clock_at is a time in ms since the epoch, as {1000 * 2**31}, not {clock_at!r}")
    if behaviour not in BEHAVIOURS:
        raise unknown("behaviour", str(behaviour), BEHAVIOURS)
    if record not in LEVELS:
        raise LabError(f"record is one of {', '.join(LEVELS)}, not {record!r}")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise LabError(f"a seed is a whole number, not {seed!r}")
    words = texts_of(settings)
    _check_nodes(nodes, port, words)
    durability, disk = _disk_of(durability, words.get("log.dirs", disk))
    options = BrokerOptions(
        partitions_by_topic(topics),
        words,
        durability,
        host,
        port,
        strict_clients,
        disk,
        seed,
        clock,
        clock_at,
        record,
        behaviour,
        nodes,
    )
    if options.config().is_joined:
        raise LabError("a broker of the lab runs alone: leave out the settings that name controllers")
    return options


def _check_nodes(nodes: object, port: int, words: Mapping[str, str]) -> None:
    """Raise LabError for a number of nodes that cannot be."""
    if not isinstance(nodes, int) or isinstance(nodes, bool) or not 1 <= nodes <= MOST_NODES:
        raise LabError(f"nodes is 1 to {MOST_NODES}, not {nodes!r}")
    if nodes == 1:
        return
    if given := {PROTOCOL_MAP, "node.id"} & words.keys():
        raise LabError(f"each of {nodes} nodes has a listener of its own: leave out the setting {min(given)}")
    if LISTENERS in words:
        told = words[LISTENERS]
        try:
            pattern = parse_listener(told, key=LISTENERS)
            protocol, port = pattern.name, pattern.port
        except SettingError:
            protocol = ""
        if protocol not in PROTOCOLS:
            raise LabError(
                f"each of {nodes} nodes has a listener of its own: the setting listeners is one, for all of them, named"
                f" by its protocol ({', '.join(PROTOCOLS)}), as SASL_SSL://127.0.0.1:0, not {told!r}"
            )
    if port + nodes > HIGHEST_PORT + 1:
        raise LabError(f"{nodes} nodes need the ports {port} to {port + nodes - 1}, and the highest is {HIGHEST_PORT}")


def _disk_of(durability: str | None, disk: str | Path) -> tuple[str, str]:
    """The durability and the disk, each as it follows from the other where only one is named. Raises LabError."""
    if durability is not None and durability not in DURABILITIES:
        raise LabError(f"durability is one of {', '.join(DURABILITIES)}, not {durability!r}")
    if isinstance(disk, str) and disk not in (LAB, MEMORY) and "/" not in disk:
        raise LabError(f'disk is "{LAB}", "{MEMORY}" or the pathlib.Path of a directory, not {disk!r}')
    if disk == MEMORY:
        if durability not in (None, MEMORY):
            raise LabError(f'disk="{MEMORY}" keeps nothing, so leave out durability={durability!r}, or disk')
        return MEMORY, MEMORY
    if durability == MEMORY:
        return MEMORY, MEMORY
    return durability or FSYNC, str(disk)


def checked_snapshot(snapshot: "Snapshot | str | None") -> "Snapshot | str | None":
    """The snapshot to start from, or the name of one. Raises LabError."""
    if snapshot is None:
        return None
    from eosin.lab.crash.snapshot import Snapshot

    if isinstance(snapshot, str) and snapshot not in READY_MADE:
        raise unknown("ready-made snapshot", snapshot, READY_MADE)
    if not isinstance(snapshot, (str, Snapshot)):
        raise LabError(f"snapshot is a Snapshot or the name of a ready-made one, not {snapshot!r}")
    return snapshot


def partitions_by_topic(topics: Topics) -> dict[str, int]:
    """The number of partitions of each topic that is named. Raises LabError."""
    if isinstance(topics, str):
        raise LabError(f'topics are a list of names or {{"{topics}": partitions}}, not the text {topics!r}')
    named = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
    for name, partitions in named.items():
        if not isinstance(name, str):
            raise LabError(f"a topic's name is a text, not {name!r}")
        if not isinstance(partitions, int) or partitions < 1:
            raise LabError(f"topic {name} has 1 partition or more, not {partitions!r}")
    return named


def topics_in(text: str, where: str) -> dict[str, int]:
    """The topics in a text, NAME[:PARTITIONS] with commas or white space in between; `where` it stands. Raises
    LabError."""
    found = {}
    for each in text.replace(",", " ").split():
        name, colon, partitions = each.partition(":")
        if colon and not partitions.isdecimal():
            raise LabError(f"{where} is NAME[:PARTITIONS],..., not {text!r}")
        found[name] = int(partitions) if colon else 1
    return found


def text_of(value: object) -> str:
    """The value of a setting as a configuration file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(text_of, value))
    return str(value)


def texts_of(settings: Mapping[str, object] | None) -> dict[str, str]:
    """Settings as a configuration file has them."""
    return {name: text_of(value) for name, value in (settings or {}).items()}


@lru_cache(maxsize=64)
def _config_of(flags: tuple[tuple[str, str], ...]) -> BrokerConfig:
    try:
        return load_config(flags=dict(flags)).config
    except SettingError as refused:
        raise LabError(str(refused)) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
