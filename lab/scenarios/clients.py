"""The ways in which client libraries go through incidents, as docs/clients.md has them. Pure.

Always true: `EXPECTED` has the scenarios in which libraries differ; in the others an application has the same to do
with each of them.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

LIBRDKAFKA: Final = "librdkafka"
KAFKA_PYTHON: Final = "kafka-python"
AIOKAFKA: Final = "aiokafka"
KAFKAJS: Final = "kafkajs"
JAVA_4: Final = "Java 4.x"
JAVA_3: Final = "Java 2.5 to 3.9"
FRANZ_GO: Final = "franz-go"
CLIENTS: Final = (LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA, KAFKAJS, JAVA_4, JAVA_3, FRANZ_GO)

_SOFTWARE: Final = (
    ("*rdkafka*", LIBRDKAFKA),
    ("kafka-python*", KAFKA_PYTHON),
    ("aiokafka*", AIOKAFKA),
    ("kafkajs*", KAFKAJS),
    ("apache-kafka-java [23].*", JAVA_3),
    ("apache-kafka-java*", JAVA_4),
    ("kgo*", FRANZ_GO),
    ("franz-go*", FRANZ_GO),
)
"""Clients by what they say of themselves (KIP-511)."""

_AGAIN: Final = "the client tries again"
_ABORT: Final = "abort, and go on"
_REBUILD: Final = "close the producer, and build another"
_UNVERIFIED: Final = "not verified"


def _all(words: str, **others: str) -> Mapping[str, str]:
    named = {name.replace("-", "_").replace(" ", "_").replace(".", "_"): name for name in CLIENTS}
    return MappingProxyType({**dict.fromkeys(CLIENTS, words), **{named[name]: each for name, each in others.items()}})


_TIMEOUT: Final = _all(
    _REBUILD,
    librdkafka=f"{_REBUILD}; at Eosin: {_ABORT}",
    kafka_python="after a late record go on, else close the producer, and build another",
    Java_4_x="abort after a late record, partition or abort; rebuild after a late commit or offsets; at Eosin: abort",
    Java_2_5_to_3_9=f"{_REBUILD}; at Eosin: abort, with at most one more transaction lost",
    franz_go="rebuild, at TV2 abort if that comes first; at Eosin: abort",
)
_FENCED: Final = _all(_REBUILD)

EXPECTED: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "transaction-timeout": _TIMEOUT,
        "timeout-at-commit": _TIMEOUT,
        "network-partition": _TIMEOUT,
        "zombie-after-pause": _FENCED,
        "two-of-one-id": _FENCED,
        "idle-week": _all(
            _REBUILD,
            librdkafka=_ABORT,
            kafkajs=_UNVERIFIED,
            Java_4_x=f"{_REBUILD} (KAFKA-18019)",
            Java_2_5_to_3_9=_ABORT,
            franz_go=_ABORT,
        ),
        "concurrent-transactions": _all(
            _AGAIN,
            aiokafka=f"{_AGAIN}; for offsets: rebuild",
            kafkajs=f"{_AGAIN}; at a commit: rebuild",
            Java_2_5_to_3_9=f"{_AGAIN}; for offsets before 3.8: rebuild",
            franz_go=f"{_AGAIN}; for offsets: abort",
        ),
        "sequence-gap": _all(
            _ABORT,
            librdkafka=f"{_REBUILD}, or abort if its error says so",
            kafka_python="ask the future of each record: a commit succeeds although one was refused, and nothing is"
            f" committed; {_REBUILD}",
            kafkajs=_UNVERIFIED,
        ),
        "topic-recreated": _all(
            _AGAIN,
            franz_go="close the client, or purge the topic: it never takes another id for a topic",
            kafkajs=_UNVERIFIED,
        ),
        "lost-commit-answer": _all(_AGAIN, kafkajs=_UNVERIFIED, franz_go=_UNVERIFIED),
        "zombie-member": _all(
            _ABORT,
            aiokafka="the broker is not told the member, so that the transactional id alone fences it",
            kafkajs="the broker is not told the member, so that the transactional id alone fences it",
        ),
    }
)
"""The work of an application with each client, by scenario; at a broker that behaves like Apache Kafka."""


def client_of(software: str) -> str | None:
    """The client, one of `CLIENTS`, that says this of itself; None for another."""
    return next((name for pattern, name in _SOFTWARE if fnmatchcase(software.lower(), pattern)), None)


def rows_for(scenario: str, softwares: Iterable[str]) -> tuple[str, ...]:
    """The sentences about these clients in a scenario, none where they do not differ from others."""
    rows = EXPECTED.get(scenario, {})
    found = dict.fromkeys(client for each in softwares if (client := client_of(each)) in rows)
    return tuple(f"{client}: {rows[client]}" for client in found if client is not None)
