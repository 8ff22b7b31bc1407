"""`BrokerOptions`: how a broker of the lab is to be. Checked before anything starts.

Always true: the settings are the broker's own names, checked as in a configuration file.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from eosin.lab.common.errors import LabError
from eosin.lab.history.recording import LEVELS, PROTOCOL
from eosin.node.configuration import load_config
from eosin.settings.broker import DURABILITIES, BrokerConfig
from eosin.settings.first_topics import FirstTopic
from eosin.settings.settings import SettingError

Topics = Iterable[str] | Mapping[str, int]
"""Names, each of one partition, or the number of partitions by name."""

MEMORY: Final = "memory"
LAB_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
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
    durability: str = MEMORY
    host: str = "127.0.0.1"
    port: int = 0
    strict_clients: bool = False
    seed: int | None = None
    """Of what happens by chance; None is any."""
    record: str = PROTOCOL
    """The level of the history that is kept: one of `LEVELS`."""

    @property
    def first_topics(self) -> tuple[FirstTopic, ...]:
        """The topics, which the broker makes before it serves anybody."""
        return tuple(FirstTopic(name, partitions) for name, partitions in self.topics.items())

    def config(self, log_dir: str | None = None) -> BrokerConfig:
        """The settings of the broker; `log_dir` is for a durability that writes files. Raises LabError."""
        flags = {
            **LAB_SETTINGS,
            "listeners": f"PLAINTEXT://{_bracketed(self.host)}:{self.port}",
            "eosin.durability": self.durability,
            **({} if log_dir is None else {"log.dirs": log_dir}),
            **self.settings,
        }
        return _config_of(tuple(sorted(flags.items())))


def options_of(
    *,
    topics: Topics = (),
    settings: Mapping[str, object] | None = None,
    durability: str = MEMORY,
    host: str = "127.0.0.1",
    port: int = 0,
    strict_clients: bool = False,
    seed: int | None = None,
    record: str = PROTOCOL,
) -> BrokerOptions:
    """The checked options. Raises LabError."""
    if durability not in DURABILITIES:
        raise LabError(f"durability is one of {', '.join(DURABILITIES)}, not {durability!r}")
    if record not in LEVELS:
        raise LabError(f"record is one of {', '.join(LEVELS)}, not {record!r}")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise LabError(f"a seed is a whole number, not {seed!r}")
    options = BrokerOptions(
        partitions_by_topic(topics),
        {name: text_of(value) for name, value in (settings or {}).items()},
        durability,
        host,
        port,
        strict_clients,
        seed,
        record,
    )
    if options.config(None if durability == MEMORY else "unused").is_joined:
        raise LabError("a broker of the lab runs alone: leave out the settings that name controllers")
    return options


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


def text_of(value: object) -> str:
    """The value of a setting as a configuration file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(text_of, value))
    return str(value)


@lru_cache(maxsize=64)
def _config_of(flags: tuple[tuple[str, str], ...]) -> BrokerConfig:
    try:
        return load_config(flags=dict(flags)).config
    except SettingError as refused:
        raise LabError(str(refused)) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
