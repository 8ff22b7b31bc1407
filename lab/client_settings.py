"""Settings for clients of a broker of the lab: for librdkafka, kafka-python and aiokafka, and Java. Pure.

Always true: `plain` settings are the address alone, and what a test names comes last and wins.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

_FAST_LIBRDKAFKA: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 50,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 50,
        "topic.metadata.refresh.fast.interval.ms": 10,
        # Else a new producer may wait for half a second until it connects to the one broker that it has heard of.
        "enable.sparse.connections": False,
        "log_level": 0,
    }
)
"""For every kind of client of librdkafka: a setting that is for producers alone would be a warning of a consumer."""
_FAST_KEYWORDS: Final[Mapping[str, Any]] = MappingProxyType({"retry_backoff_ms": 10, "metadata_max_age_ms": 1000})
"""Known to both kafka-python and aiokafka, in producers, consumers and administration."""
_FAST_JAVA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "retry.backoff.ms": "10",
        "retry.backoff.max.ms": "50",
        "reconnect.backoff.ms": "10",
        "reconnect.backoff.max.ms": "50",
        "metadata.max.age.ms": "1000",
    }
)
_UNDERSCORED: Final = frozenset({"log_level", "on_commit", "on_delivery"})
"""Names of librdkafka, and of its Python client, that have no dot."""


def librdkafka(bootstrap: str, more: Mapping[str, Any], *, plain: bool) -> dict[str, Any]:
    """Dotted names, as confluent-kafka takes them. In `more`, `_` stands for the dot: `group_id="g"`."""
    settings = {} if plain else dict(_FAST_LIBRDKAFKA)
    return {"bootstrap.servers": bootstrap, **settings, **{_dotted(name): value for name, value in more.items()}}


def keywords(bootstrap: str, more: Mapping[str, Any], *, plain: bool) -> dict[str, Any]:
    """Keywords of kafka-python and aiokafka."""
    return {"bootstrap_servers": bootstrap, **({} if plain else _FAST_KEYWORDS), **more}


def java(bootstrap: str, more: Mapping[str, Any], *, plain: bool) -> dict[str, str]:
    """Dotted names and texts, as Java clients take them. In `more`, `_` stands for the dot."""
    texts = {_dotted(name): _java_text(value) for name, value in more.items()}
    return {"bootstrap.servers": bootstrap, **({} if plain else _FAST_JAVA), **texts}


def _dotted(name: str) -> str:
    return name if name in _UNDERSCORED or name.endswith("_cb") else name.replace("_", ".")


def _java_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
