"""From texts to a `BrokerConfig`: defaults, then a properties file, then an image's environment, then `--set`, then
flags; the last one wins.

Whatever cannot be used is a `SettingError` whose text is one sentence that names the key and what it allows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eosin.protocol.properties import parse_properties
from eosin.settings.broker import BROKER_SETTINGS, CLASSIC, STANDARD_AUTHORIZER, BrokerConfig
from eosin.settings.connections import CONNECTIONS_PER_LISTENER
from eosin.settings.groups import check_ranges
from eosin.settings.http import HTTP, check_http
from eosin.settings.kafka_keys import is_unused
from eosin.settings.listeners import (
    EVERY_LISTENER,
    PROTOCOL_MAP,
    check_advertised,
    check_ports,
    parse_listeners,
    protocol_map,
    protocols_of,
)
from eosin.settings.one_node import ADVERTISED, LISTENERS, is_one_node, reduce_to_broker
from eosin.settings.quorum import (
    LINK_PER_LISTENER,
    PLAINTEXT,
    QUORUM_SETTINGS,
    check_alone,
    check_joined,
    joined_values,
    warnings_of,
)
from eosin.settings.sasl import SASL_PER_LISTENER, without_mechanism
from eosin.settings.security import LISTENER_PREFIX, PER_LISTENER, unprefixed
from eosin.settings.settings import HIDDEN, SettingError, SettingKind
from eosin.settings.timeout_profiles import profiles
from eosin.settings.tracing import traces_url

if TYPE_CHECKING:  # a broker outside of an image does not load them
    from eosin.settings.first_topics import FirstTopic
    from eosin.settings.variable_settings import VariableSettings

ALIASES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Older names of Kafka, and ours for them."""


Check = Callable[[BrokerConfig], Iterable[str]]
"""Raises `SettingError` for settings that cannot be used together; what their author should be told."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A finished config and what its author should be told."""

    config: BrokerConfig
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Lines that nobody has to act on."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The source of each setting that is not a default: `file`, `command line`, or a variable's name."""
    topics: "tuple[FirstTopic, ...]" = ()
    """To be made before the broker is ready."""
    users: tuple[str, ...] = ()
    """To be added where there are none, as `--add-scram` has them."""


FILE: Final = "file"
COMMAND_LINE: Final = "command line"
DERIVED: Final = "derived"


def load_config(
    *,
    properties: str = "",
    environment: "VariableSettings | None" = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, str] | None = None,
    checks: Sequence[Check] = (),
    host: str = "localhost",
) -> LoadedConfig:
    """Build a config from the text of a properties file, the variables of an image, `name=value` assignments and flags
    by key, the later over the earlier. `checks` are those of the rooms that the settings are for; `host` is the name of
    this machine. Raises `SettingError`."""
    given: dict[str, str] = {}
    on_command_line: dict[str, str] = {}
    unused: list[str] = []
    unknown: list[str] | None = None if environment is None else []
    _merge(given, unused, parse_properties(properties), unknown)
    origins = dict.fromkeys(given, FILE)
    if environment is not None:
        given |= environment.settings
        origins |= environment.origins
    for source in (map(_assignment, assignments), (flags or {}).items()):
        _merge(on_command_line, unused, source)
    given |= on_command_line
    origins |= dict.fromkeys(on_command_line, COMMAND_LINE)
    references = _resolve(given)
    fitted = _fit_image(given, origins, environment, host)
    warnings = list(fitted.warnings)
    for_listeners = {key: given.pop(key) for key in list(given) if key not in BROKER_SETTINGS}
    values = {BROKER_SETTINGS[key].field_name: _parsed(key, key, text, references) for key, text in given.items()}
    shown = {key: HIDDEN if BROKER_SETTINGS[key].kind is SettingKind.PASSWORD else text for key, text in given.items()}
    shown |= {key: text for key, text in references.items() if key in given}
    config = BrokerConfig(**values, given=MappingProxyType(shown), references=MappingProxyType(references))
    if for_listeners:
        config = replace(config, overrides=_overrides(config, for_listeners, references, unused))
    if config.is_joined:
        config = replace(config, **joined_values(given))
    warnings += _checked(config, given, frozenset(on_command_line))
    for check in checks:
        warnings += check(config)
    if unknown:
        warnings.append(f"unknown settings in the file: {', '.join(sorted(unknown))}")
    if unused and environment is None:
        warnings.append(f"Kafka settings that Eosin does not use: {', '.join(sorted(set(unused)))}")
    topics = environment.topics if environment is not None else ()
    return LoadedConfig(config, tuple(warnings), fitted.notes, MappingProxyType(origins), topics, fitted.users)


class _Fitted(NamedTuple):
    """Sentences to say and users to add, besides settings."""

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


def _fit_image(
    given: dict[str, str], origins: dict[str, str], environment: "VariableSettings | None", host: str
) -> _Fitted:
    """Make the settings of a node of Kafka that is alone those of a broker that runs alone, and add what the variables
    of an image imply."""
    in_image = environment is not None
    warnings: tuple[str, ...] = ()
    if is_one_node(given, in_image=in_image):
        before = dict(given)
        own = host if environment is None else environment.host_for(given, host)
        warnings = tuple(reduce_to_broker(given, host=own, in_image=in_image))
        for key in (LISTENERS, ADVERTISED):
            if key in given and key not in before:
                origins[key] = DERIVED
    if environment is None:
        return _Fitted(warnings)
    protocols = _protocols(given)
    environment.settle(given, origins, listeners=protocols)
    implied = environment.implied_by(given, protocols=protocols)
    for key, text in implied.settings.items():
        if key not in given:
            given[key], origins[key] = text, implied.origins[key]
    return _Fitted(
        (*environment.warnings, *warnings, *implied.warnings), (*environment.notes, *implied.notes), implied.users
    )


def _protocols(given: Mapping[str, str]) -> dict[str, str]:
    """The protocol of each listener, before the settings are typed."""
    listeners = parse_listeners(_list(given, LISTENERS), key=LISTENERS)
    return protocols_of([each.name for each in listeners], _list(given, PROTOCOL_MAP))


def _list(given: Mapping[str, str], key: str) -> tuple[str, ...]:
    found: tuple[str, ...] = BROKER_SETTINGS[key].parse(given.get(key, ""))
    return found


def _checked(config: BrokerConfig, given: Mapping[str, str], on_command_line: frozenset[str]) -> list[str]:
    """Check the settings together; warnings. Raises `SettingError`."""
    _check(config)
    if config.is_joined:
        check_joined(
            config,
            protocols=protocol_map(config.listener_security_protocol_map),
            on_command_line=on_command_line,
        )
        return list(warnings_of(config))
    check_alone(config)
    of_a_quorum = sorted(key for key in given if key in QUORUM_SETTINGS and key != "eosin.cluster.id")
    if not of_a_quorum:
        return []
    return [f"Settings of brokers in a quorum, which a broker that runs alone does not use: {', '.join(of_a_quorum)}"]


def _merge(
    given: dict[str, str],
    unused: list[str],
    source: Iterable[tuple[str, str]],
    unknown: list[str] | None = None,
) -> None:
    """Add the settings of a source. Unknown ones go into `unknown`; without it, they raise `SettingError`."""
    for written, text in source:
        key = ALIASES.get(written, written)
        if key in BROKER_SETTINGS or key.startswith(LISTENER_PREFIX) or key.startswith("config.providers"):
            given[key] = text
        elif key == "ssl.engine.factory.class":
            raise SettingError(f"{key} names a class of Java, which Eosin cannot run; leave it out")
        elif is_unused(key):
            unused.append(key)
        elif unknown is not None:
            unknown.append(written)
        else:
            raise SettingError(_unknown(written))


def _resolve(given: dict[str, str]) -> dict[str, str]:
    """Replace references to values that stand elsewhere by those, and take what is about providers out of `given`; the
    references, by key. Raises `SettingError`."""
    about = [key for key in given if key.startswith("config.providers")]
    if not about and not any("${" in text for text in given.values()):
        return {}
    from eosin.settings.providers import Providers

    providers, references = Providers({key: given.pop(key) for key in about}), {}
    for key, text in given.items():
        value = providers.resolve(key, text)
        if value != text:
            given[key], references[key] = value, text
    return references


def _parsed(key: str, written: str, text: str, references: Mapping[str, str]) -> Any:
    """The typed value of a setting, written with its prefix. What a reference leads to is in no sentence."""
    try:
        return BROKER_SETTINGS[key].parse(text)
    except SettingError:
        if written not in references:
            raise
    raise SettingError(f"what {references[written]} leads to is no value for {key}")


def _overrides(
    config: BrokerConfig, texts: Mapping[str, str], references: Mapping[str, str], unused: list[str]
) -> Mapping[str, Any]:
    """The typed values of keys that start with `listener.name.`, for the listeners that there are."""
    names = {listener.name.lower() for listener in config.bound_listeners}
    if config.is_joined and config.controller_protocol != PLAINTEXT:
        names.add(config.controller_listener.lower())
    if config.eosin_http_ssl_enable:
        names.add(HTTP.lower())
    values = {}
    for key, text in texts.items():
        found = unprefixed(key, frozenset(names))
        own = "" if found is None else without_mechanism(found[1])
        if own in PER_LISTENER | SASL_PER_LISTENER | LINK_PER_LISTENER | CONNECTIONS_PER_LISTENER:
            try:
                values[key] = _parsed(own, key, text, references)
            except SettingError as refused:
                raise SettingError(f"{key.removesuffix(own)}{refused}") from None
        elif found is not None and found[1] in BROKER_SETTINGS:
            raise SettingError(f"{found[1]} holds for all listeners; write it without {LISTENER_PREFIX}{found[0]}")
        elif found is not None and not is_unused(found[1]) and found[1].startswith("ssl."):
            raise SettingError(_unknown(key, f"{LISTENER_PREFIX}{found[0]}."))
        else:
            unused.append(key)  # of a listener of controllers, say
    return MappingProxyType(values)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingError(f"--set takes name=value, not {text!r}")
    return name.strip(), value


def _unknown(key: str, prefix: str = "") -> str:
    from difflib import get_close_matches  # most starts have no such setting

    close = get_close_matches(key.removeprefix(prefix), BROKER_SETTINGS, n=1)
    return f"unknown setting {key!r}" + (
        f"; did you mean {prefix}{close[0]}?" if close else "; docs/configuration.md lists all"
    )


def _check_held(config: BrokerConfig) -> None:
    """Check which listeners wait for an address."""
    key, names = "eosin.advertise.later", {each.name for each in config.bound_listeners}
    for each in config.eosin_advertise_later:
        if each not in {*names, EVERY_LISTENER}:
            raise SettingError(f"{key} names {each}, but no listener has that name; * means all")
    if config.eosin_advertise_later and config.is_joined:
        raise SettingError(f"{key} is for a broker alone: a cluster is told the addresses when its brokers join it")
    if config.eosin_advertise_later and not config.eosin_http_listener:
        raise SettingError(f"{key} needs eosin.http.listener, or --http: the address is told there")


def _check(config: BrokerConfig) -> None:
    """Check the settings together, for mistakes that no single setting shows."""
    if not config.listeners:
        raise SettingError("listeners must name at least one address")
    listeners = parse_listeners(config.listeners, key="listeners")
    check_ports(listeners)
    protocols_of([listener.name for listener in listeners], config.listener_security_protocol_map)
    _check_held(config)
    check_advertised(
        listeners,
        parse_listeners(config.advertised_listeners, key="advertised.listeners"),
        # A broker of a cluster tells the name of its machine.
        told_otherwise=[each.name for each in listeners] if config.is_joined else config.held_listeners,
    )
    profiles(config.transaction_timeout_recovery_profiles)
    check_http(config)
    traces_url(config.eosin_tracing_endpoint)
    if len(config.log_dirs) != 1:
        raise SettingError(f"log.dirs must name one directory, not {len(config.log_dirs) or 'none'}")
    if config.eosin_durability == "memory" and "log.dirs" in config.given:
        raise SettingError("durability memory writes nothing, so it cannot have a data directory; leave --data-dir out")
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        raise SettingError(
            f"group.min.session.timeout.ms ({config.group_min_session_timeout_ms}) must not be above"
            f" group.max.session.timeout.ms ({config.group_max_session_timeout_ms})"
        )
    check_ranges(config)
    if CLASSIC not in config.group_coordinator_rebalance_protocols:
        raise SettingError(f"group.coordinator.rebalance.protocols must name {CLASSIC}, which is always served")
    if config.transaction_two_phase_commit_enable and config.eosin_transaction_version < 2:
        raise SettingError(
            "transaction.two.phase.commit.enable needs eosin.transaction.version 2: below, a prepared transaction"
            " cannot be told from the next one of its producer"
        )
    if config.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
        raise SettingError(
            f"authorizer.class.name must be {STANDARD_AUTHORIZER} or empty, not {config.authorizer_class_name!r}: Eosin"
            " has no other authorizer"
        )
    for principal in config.super_principals:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            raise SettingError(f"super.users must hold TYPE:NAME with semicolons between them, not {principal!r}")
    if config.super_principals and not config.has_authorizer:
        raise SettingError("super.users needs authorizer.class.name: without an authorizer everybody may do everything")
    if not config.max_connections_per_ip and not config.connections_by_address:
        raise SettingError("max.connections.per.ip of 0 lets nobody in but who max.connections.per.ip.overrides names")
    assert config.connections_by_address is not None  # raises for what is no address
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
