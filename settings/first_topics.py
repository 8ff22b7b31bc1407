"""`FirstTopic`: a topic that is made before a broker is ready, where there is none of its name.

Written `NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]]` with commas between, as images of Kafka do in
KAFKA_CREATE_TOPICS.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from eosin.protocol.names import is_legal_topic_name
from eosin.settings.settings import SettingError
from eosin.settings.topics import TOPIC_CONFIGS

_FORM: Final = "NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS[:CLEANUP.POLICY]"
_CONFIG: Final = re.compile(r"--config[= ]\s*([^=\s]+)=(\S*)")


@dataclass(frozen=True, slots=True)
class FirstTopic:
    """A topic to make."""

    name: str
    partitions: int | None = None
    """None: the broker's default."""
    configs: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name if self.partitions is None else f"{self.name}:{self.partitions}"


def parse_first_topics(text: str, *, key: str, separator: str = ",") -> tuple[FirstTopic, ...]:
    """Read topics; blanks, quotes and the ends of lines between them say nothing. Raises SettingError."""
    plain = text.replace("\\\n", " ").replace('"', " ").replace("'", " ")
    entries = [each for each in (part.strip(" \t\r\n\\") for part in plain.split(separator)) if each]
    topics = [_parsed(each, key) for each in entries]
    return tuple({each.name: each for each in topics}.values())


def _parsed(entry: str, key: str) -> FirstTopic:
    name, *rest = (part.strip() for part in entry.split(":", 3))
    numbers, last = rest[:2], rest[2] if len(rest) > 2 else ""
    if not is_legal_topic_name(name):
        raise SettingError(f"{key}: {name!r} cannot be the name of a topic; write {_FORM}, with commas between")
    if not all(each.isascii() and each.isdigit() and 0 < int(each) < 2**31 for each in numbers):
        raise SettingError(f"{key}: {entry!r} must be {_FORM}, with numbers above 0")
    return FirstTopic(name, int(numbers[0]) if numbers else None, _configs(last, key))


def _configs(text: str, key: str) -> Mapping[str, str]:
    """The cleanup policy and what follows it, as words of a command line."""
    configs = dict(_CONFIG.findall(text))
    policy = _CONFIG.sub("", text).strip()
    if policy:
        configs["cleanup.policy"] = policy
    for name, value in configs.items():
        if name not in TOPIC_CONFIGS:
            raise SettingError(f"{key}: topics have no config {name!r}; docs/configuration.md lists all")
        try:
            TOPIC_CONFIGS[name].parse(value)
        except SettingError as refused:
            raise SettingError(f"{key}: {refused}") from None
    return configs
