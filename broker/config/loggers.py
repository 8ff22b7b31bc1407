"""The levels of the broker's loggers, as settings of the resource BROKER_LOGGER (KIP-412).

`root` is the logger of everything; the others are those of Eosin that exist. A level that a logger does not have itself
is that of the one above it. What is changed lasts until the broker ends.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from eosin.broker.config.entries import ConfigEntry, ConfigSource
from eosin.model.cluster import ConfigChange, ConfigOperation, Outcome
from eosin.protocol.errors import ErrorCode
from eosin.settings.settings import SettingKind

ROOT: Final = "root"
_OURS: Final = "eosin"
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {level: name for name, level in reversed(_LEVELS.items()) if name != "TRACE"}


def logger_entries() -> Iterator[ConfigEntry]:
    """Every logger with its level in Kafka's words, by name."""
    for name in sorted(_loggers()):
        level = _logger(name).getEffectiveLevel()
        yield ConfigEntry(
            name=name,
            value=_NAMES.get(level, logging.getLevelName(level)),
            source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            read_only=False,
            kind=SettingKind.STRING,
            documentation="The least level of the lines that this logger writes.",
            synonyms=(),
        )


def change_levels(changes: Sequence[ConfigChange], *, validate_only: bool) -> Outcome:
    """Set levels, or take them back; all of them or none."""
    known = _loggers()
    for change in changes:
        if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            return Outcome(ErrorCode.INVALID_REQUEST, "A log level is set or deleted, nothing else")
        if change.name not in known:
            return Outcome(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist")
        if change.operation == ConfigOperation.DELETE:
            if change.name == ROOT:
                return Outcome(ErrorCode.INVALID_REQUEST, "The level of the root logger cannot be deleted")
        elif change.value not in _LEVELS:
            return Outcome(
                ErrorCode.INVALID_CONFIG,
                f"{change.value} is no log level; those of {change.name} are {', '.join(sorted(_LEVELS))}",
            )
    if not validate_only:
        for change in changes:
            is_set = change.operation == ConfigOperation.SET
            _logger(change.name).setLevel(_LEVELS[change.value or ""] if is_set else logging.NOTSET)
    return Outcome(ErrorCode.NONE)


def _loggers() -> set[str]:
    existing = logging.getLogger().manager.loggerDict
    ours = {name for name in list(existing) if name == _OURS or name.startswith(f"{_OURS}.")}
    return {ROOT, *ours}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
