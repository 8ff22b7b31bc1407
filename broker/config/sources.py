"""From texts to a `BrokerConfig`: defaults, then a properties file, then `--set`, then flags; the last one wins.

Whatever cannot be used is a `SettingError` whose text is one sentence that names the key and what it allows.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from eosin.broker.config.broker import BROKER_SETTINGS, BrokerConfig
from eosin.broker.config.kafka_keys import is_unused
from eosin.broker.config.quorum import (
    QUORUM_SETTINGS,
    check_alone,
    check_joined,
    joined_values,
    protocol_map,
    warnings_of,
)
from eosin.broker.config.settings import SettingError
from eosin.broker.listeners import check_advertised, parse_listeners
from eosin.broker.transactions.timeout_errors import profiles

ALIASES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Older names of Kafka, and ours for them."""

PROTOCOL_MAP: Final = "listener.security.protocol.map"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A finished config and what its author should be told."""

    config: BrokerConfig
    warnings: tuple[str, ...]


def load_config(
    *, properties: str = "", assignments: Sequence[str] = (), flags: Mapping[str, str] | None = None
) -> LoadedConfig:
    """Build a config from the text of a properties file, `name=value` assignments and flags by key, the later over the
    earlier. Raises `SettingError`."""
    given: dict[str, str] = {}
    on_command_line: dict[str, str] = {}
    unused: list[str] = []
    _merge(given, unused, parse_properties(properties))
    for source in (map(_assignment, assignments), (flags or {}).items()):
        _merge(on_command_line, unused, source)
    given |= on_command_line
    values = {BROKER_SETTINGS[key].field_name: BROKER_SETTINGS[key].parse(text) for key, text in given.items()}
    config = BrokerConfig(**values, given=MappingProxyType(given))
    warnings: list[str] = []
    if config.is_joined:
        config = replace(config, **joined_values(given))
        _check(config)
        check_joined(
            config,
            protocols=protocol_map(config.listener_security_protocol_map),
            on_command_line=frozenset(on_command_line),
        )
        warnings += warnings_of(config)
    else:
        _check(config)
        check_alone(config)
        of_a_quorum = sorted(key for key in given if key in QUORUM_SETTINGS)
        if of_a_quorum:
            warnings.append(
                "Settings of brokers in a quorum, which a broker that runs alone does not use:"
                f" {', '.join(of_a_quorum)}"
            )
    if unused:
        warnings.append(f"Kafka settings that Eosin does not use: {', '.join(sorted(set(unused)))}")
    return LoadedConfig(config, tuple(warnings))


def parse_properties(text: str) -> list[tuple[str, str]]:
    """The entries of a Java properties file, in order."""
    entries = []
    for line in _logical_lines(text):
        found = _ENTRY.fullmatch(line)
        assert found is not None, "the pattern matches every line"
        entries.append((_unescape(found[1]), _unescape(found[2])))
    return entries


def _merge(given: dict[str, str], unused: list[str], source: Iterable[tuple[str, str]]) -> None:
    for written, text in source:
        key = ALIASES.get(written, written)
        if key in BROKER_SETTINGS:
            given[key] = text
        elif is_unused(key):
            unused.append(key)
        else:
            raise SettingError(_unknown(written))


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingError(f"--set takes name=value, not {text!r}")
    return name.strip(), value


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key, BROKER_SETTINGS, n=1)
    return f"unknown setting {key!r}" + (
        f"; did you mean {close[0]}?" if close else "; docs/configuration.md lists all"
    )


def _check_protocol_map(entries: Sequence[str]) -> None:
    for entry in entries:
        name, _, protocol = entry.partition(":")
        if protocol.strip().upper() != "PLAINTEXT":
            raise SettingError(
                f"{PROTOCOL_MAP} must map {name} to PLAINTEXT, the only protocol Eosin serves, not {protocol!r}"
            )


def _check(config: BrokerConfig) -> None:
    """What no single setting can tell."""
    if not config.listeners:
        raise SettingError("listeners must name at least one address")
    _check_protocol_map(config.listener_security_protocol_map)
    check_advertised(
        parse_listeners(config.listeners, key="listeners"),
        parse_listeners(config.advertised_listeners, key="advertised.listeners"),
        wildcards=config.is_joined,
    )
    profiles(config.transaction_timeout_recovery_profiles)
    if len(config.log_dirs) != 1:
        raise SettingError(f"log.dirs must name one directory, not {len(config.log_dirs) or 'none'}")
    if config.eosin_durability == "memory" and "log.dirs" in config.given:
        raise SettingError("durability memory writes nothing, so it cannot have a data directory; leave --data-dir out")
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        raise SettingError(
            f"group.min.session.timeout.ms ({config.group_min_session_timeout_ms}) must not be above"
            f" group.max.session.timeout.ms ({config.group_max_session_timeout_ms})"
        )
    if config.transaction_two_phase_commit_enable and config.eosin_transaction_version < 2:
        raise SettingError(
            "transaction.two.phase.commit.enable needs eosin.transaction.version 2: below, a prepared transaction"
            " cannot be told from the next one of its producer"
        )
    defaults = config.topic_defaults
    if defaults.min_compaction_lag_ms > defaults.max_compaction_lag_ms:
        raise SettingError("log.cleaner.min.compaction.lag.ms must not be above log.cleaner.max.compaction.lag.ms")
    _check_not_zero(
        config, "log.retention.ms", "log.retention.minutes", "log.retention.hours", "compression.gzip.level"
    )


def _check_not_zero(config: BrokerConfig, *keys: str) -> None:
    for key in keys:
        value: Any = config.value(key)
        if value == 0:
            raise SettingError(f"{key} must be -1 or at least 1, not '0'")


def _logical_lines(text: str) -> list[str]:
    """Lines without comments, those that end in a backslash joined with the next."""
    lines: list[str] = []
    held = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            held += line[:-1]
            continue
        lines.append(held + line)
        held = ""
    if held:
        lines.append(held)
    return lines


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPES.get(escape, escape)

    return _ESCAPED.sub(one, text) if "\\" in text else text
