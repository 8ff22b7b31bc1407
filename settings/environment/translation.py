"""`Translation`: the settings that the variables of an image make, and what has to be said of them.

It is a function of the variables, and of files that they name. Apache's, Confluent's and Bitnami's images and some
older ones are read side by side, since their variables do not contradict each other. Always true: a variable that a
Kafka image would start with stops nothing, unless going on would break a promise: a login that is gone, code that is
not run, a value that means nothing.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from eosin.settings.broker import BROKER_SETTINGS, STANDARD_AUTHORIZER
from eosin.settings.environment.credentials import credentials_of, with_secret_files
from eosin.settings.environment.files import SYSTEM_FILES, NamedFiles
from eosin.settings.environment.names import (
    KAFKA,
    is_code,
    is_of_others,
    nearest,
    rank_of,
    setting_of,
    settled,
)
from eosin.settings.first_topics import FirstTopic, parse_first_topics
from eosin.settings.kafka_keys import is_unused
from eosin.settings.listeners import PROTOCOL_MAP, SASL_PROTOCOLS, parse_listeners, protocol_map
from eosin.settings.one_node import ADVERTISED, LISTENERS
from eosin.settings.quorum import MAX_CLUSTER_NAME, QUORUM_SETTINGS, is_cluster_name
from eosin.settings.security import LISTENER_PREFIX
from eosin.settings.settings import SettingError
from eosin.settings.variable_settings import Implied

OPEN: Final = "eosin.allow.open.listeners"
CLEARTEXT: Final = "eosin.allow.cleartext.passwords"
ADVERTISED_HOST: Final = "EOSIN_ADVERTISED_HOST"
"""The host that clients are told where nothing names a listener."""
_EOSIN: Final = "EOSIN_"
_AUTHORIZERS: Final = (
    STANDARD_AUTHORIZER,
    "kafka.security.auth.SimpleAclAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's own, of all its versions."""
_PRINCIPAL_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_NAMING: Final = "ssl.endpoint.identification.algorithm"
_LEVELS: Final = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
    "OFF": "error",
}
_SILENT: Final = (
    *("zookeeper.", "controller.", "control.plane", "metadata.", "group.", "share.", "num.", "sasl.mechanism"),
    *("broker.id.", "reserved.", "auto.leader", "leader.imbalance", "inter.broker", "unstable.", "kafka.metrics"),
    *("replica.socket", "background.threads", "log.cleaner.threads", "metric.reporters"),
)
"""Keys of Kafka whose absence no client can tell."""
_LISTENERS: Final = (LISTENERS, ADVERTISED)
_TEXT_COMMAND: Final = re.compile(r"_\{\w*COMMAND\}")
_HOSTS: Final = ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_HOST", "ADVERTISED_HOST", "ADV_HOST")
_PORTS: Final = ("KAFKA_ADVERTISED_PORT", "ADVERTISED_PORT", "BROKER_PORT")
_PLAIN_NAMES: Final = {"CLUSTER_ID": "eosin.cluster.id", "NODE_ID": "node.id", "BROKER_ID": "node.id"}
"""Settings whose variables have no prefix in some images."""
_TOPICS: Final = ("KAFKA_CREATE_TOPICS", "CREATE_TOPICS")
_WHOLE_STACK: Final = ("ADV_HOST", "CONNECTORS", "FORWARDLOGS", "RUNNING_SAMPLEDATA", "RUNTESTS")
"""Variables of an image that holds more than a broker."""


@dataclass(frozen=True, slots=True)
class Translation:
    """Settings by key, and what has to be said."""

    settings: Mapping[str, str]
    origins: Mapping[str, str]
    """The variable that each comes from."""
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    topics: tuple[FirstTopic, ...]
    variables: Mapping[str, str]
    """All of them, for `implied_by`."""
    files: NamedFiles

    def host_for(self, given: Mapping[str, str], host: str) -> str:
        """The host that clients are told where neither a listener nor a setting names one; `host` is this machine."""
        named = self.variables.get(ADVERTISED_HOST, "").strip()
        return named if named and not any(key in given for key in _LISTENERS) else host

    def settle(self, given: dict[str, str], origins: dict[str, str], *, listeners: Iterable[str]) -> None:
        """Give the keys of one listener that variables made the name of that listener."""
        names = list(listeners)
        for key in [key for key in self.settings if key.startswith(LISTENER_PREFIX) and key in given]:
            own = settled(key, names)
            given[own], origins[own] = given.pop(key), origins.pop(key)

    def implied_by(self, given: Mapping[str, str], *, protocols: Mapping[str, str]) -> Implied:
        """The settings that an image adds to `given`, by the protocols of the listeners. Raises SettingError."""
        found = credentials_of(self.variables, given, protocols=protocols, files=self.files)
        settings, warnings, notes = dict(found.settings), list[str](), list[str]()
        with_sasl = [name for name, protocol in protocols.items() if protocol in SASL_PROTOCOLS]
        if with_sasl and _is_bitnamis(self.variables) and not _has_users({**given, **settings}, found.users):
            raise SettingError(
                f"listener {with_sasl[0]} asks for a login, and there are no users: give KAFKA_CLIENT_USERS and"
                " KAFKA_CLIENT_PASSWORDS (Eosin has no default password)"
            )
        is_secured = bool(given.get("authorizer.class.name")) or any(each != "PLAINTEXT" for each in protocols.values())
        if OPEN not in given and not is_secured:
            settings[OPEN] = "true"
            notes.append(
                "no variable asks for a proof of who a client is, so everybody who reaches a listener may read and"
                " write, as with --allow-open"
            )
        elif OPEN not in given and not given.get("authorizer.class.name"):
            opened = _open_beside_secured(given, protocols)
            if opened:
                settings[OPEN] = "true"
                warnings.append(
                    f"everybody who reaches {', '.join(opened)} may read and write, because the map of protocols says"
                    " PLAINTEXT; the secured listeners beside protect nothing from them"
                )
        in_the_clear = [name for name in with_sasl if protocols[name] == "SASL_PLAINTEXT"]
        if in_the_clear and CLEARTEXT not in given:
            settings[CLEARTEXT] = "true"
            warnings.append(
                f"passwords may cross the network in the clear, because the protocol of {', '.join(in_the_clear)} is"
                " SASL_PLAINTEXT; SASL_SSL encrypts them"
            )
        origins = {key: found.origins.get(key, "implied") for key in settings}
        return Implied(settings, origins, tuple(found.users), tuple(warnings), tuple(notes))


def translate(variables: Mapping[str, str], *, files: NamedFiles = SYSTEM_FILES) -> Translation:
    """Read the variables of a process. Raises SettingError for what would break a promise, or means nothing."""
    whole = with_secret_files(variables, files)
    given: dict[str, str] = {}
    origins: dict[str, str] = {}
    warnings: list[str] = []
    candidates: defaultdict[str, list[str]] = defaultdict(list)
    unknown, unused = [], []
    for name in sorted(whole):
        value = whole[name].strip()
        key = _key_of(name, value)
        if key is None:
            if name.startswith(KAFKA) and not is_of_others(name, value) and value:
                unknown.append(name)
        elif value or key == _NAMING:
            candidates[key].append(name)
    for key, names in candidates.items():
        names.sort(key=lambda name, key=key: rank_of(name, key))  # type: ignore[misc]
        values = {name: whole[name].strip() for name in names}
        differing = [name for name in names[1:] if values[name] != values[names[0]]]
        if differing and key != "node.id":
            warnings.append(f"{names[0]} counts, and {', '.join(differing)} with another value does not")
        elif differing and all(values[name].isdigit() for name in names):
            warnings.append(f"{names[0]}={values[names[0]]} counts, not {differing[0]}={values[differing[0]]}")
        if is_unused(key) and key not in BROKER_SETTINGS:
            _refuse_code(key, names[0], values[names[0]])
            unused.append(key)
            if key == "remote.log.storage.system.enable" and values[names[0]].lower() == "true":
                warnings.append("remote log storage is not there: records stay in the data directory")
        else:
            text = _fitted(key, names, values, warnings)
            if text is not None:
                given[key], origins[key] = text, names[0]
    _add_old_names(whole, given, origins)
    _add_log_level(whole, given, origins)
    if "super.users" in given and not given.get("authorizer.class.name"):
        del given["super.users"], origins["super.users"]
    warnings += _said_of(whole, given, unknown)
    audible = sorted(key for key in set(unused) if not key.startswith(_SILENT) and key not in QUORUM_SETTINGS)
    notes = (f"Kafka settings that Eosin does not use: {', '.join(audible)}",) if audible else ()
    return Translation(
        MappingProxyType(given), MappingProxyType(origins), tuple(warnings), notes, _topics(whole), whole, files
    )


def _key_of(name: str, value: str) -> str | None:
    """The setting that a variable is; None for none. Raises SettingError for code."""
    if value and (is_code(name) or (name.startswith(KAFKA) and _TEXT_COMMAND.search(value))):
        raise SettingError(
            f"{name} runs shell code at the start, which Eosin does not; give its result in"
            f" {name.removesuffix('_COMMAND') if name.endswith('_COMMAND') else 'the variable itself'}"
        )
    if name in _PLAIN_NAMES:
        return _PLAIN_NAMES[name]
    if name.startswith(_EOSIN):
        key = f"eosin.{name.removeprefix(_EOSIN).lower().replace('_', '.')}"
        return key if key in BROKER_SETTINGS else None
    if is_of_others(name, value):
        return None
    return setting_of(name)


def _refuse_code(key: str, variable: str, value: str) -> None:
    """Java classes that decide who is who: without them somebody would be somebody else."""
    if key == "principal.builder.class" and value != _PRINCIPAL_BUILDER:
        raise SettingError(f"{variable} names a class of Java that decides who is who, which Eosin cannot run")


def _fitted(key: str, names: list[str], values: Mapping[str, str], warnings: list[str]) -> str | None:
    """The text of a setting as Eosin has it; None leaves it out. Raises SettingError."""
    name = names[0]
    text = values[name]
    if key == "node.id":
        numbers = [each for each in names if values[each].isascii() and values[each].isdigit()]
        return values[numbers[0]] if numbers else None
    if key in (*_LISTENERS, "listener.security.protocol.map"):
        return text.replace('"', "").replace("'", "")
    if key == "authorizer.class.name":
        if text not in _AUTHORIZERS:
            raise SettingError(
                f"{name} names a class of Java that decides about rights, {text}, which Eosin cannot run"
            )
        return STANDARD_AUTHORIZER
    if key == _NAMING:
        return "" if text.lower() in ("", "none") else text
    if key == "eosin.cluster.id" and not is_cluster_name(text):
        raise SettingError(f"{name} must be 1 to {MAX_CLUSTER_NAME} characters without blanks, not {text!r}")
    if key.endswith(("ssl.keystore.type", "ssl.truststore.type")) and text.upper() == "JKS":
        return None  # keytool has written PKCS12 under this name since Java 9: the content decides
    if key.startswith(LISTENER_PREFIX):
        return text
    if key == "ssl.enabled.protocols":
        kept = [
            each for each in (part.strip() for part in text.split(",")) if each not in ("TLSv1", "TLSv1.1", "SSLv3")
        ]
        return ",".join(kept) or None
    setting = BROKER_SETTINGS[key]
    if key == "log.segment.bytes" and text.isdigit() and setting.at_least and int(text) < setting.at_least:
        warnings.append(f"{name}={text} is below the least of Eosin, {setting.at_least:.0f}, which counts")
        return f"{setting.at_least:.0f}"
    if key in QUORUM_SETTINGS:  # a broker that runs alone drops them unread, and one that joins reads them later
        return text
    try:
        setting.parse(text)
    except SettingError as refused:
        raise SettingError(f"{name}: {refused}") from None
    return text


def _add_old_names(variables: Mapping[str, str], given: dict[str, str], origins: dict[str, str]) -> None:
    """Advertise what names of old say, if nothing newer does. Those images listened on a port of their own."""
    if ADVERTISED in given:
        return
    host = next((name for name in _HOSTS if variables.get(name, "").strip()), None)
    port = next((name for name in _PORTS if variables.get(name, "").strip()), None)
    own = variables.get("KAFKA_PORT", "").strip()
    bound = own if own.isdigit() else variables.get("BROKER_PORT", "").strip()
    if LISTENERS not in given and (bound or host is not None or port is not None):
        address = variables.get("KAFKA_HOST_NAME", "").strip() or "0.0.0.0"
        given[LISTENERS], origins[LISTENERS] = f"PLAINTEXT://{address}:{bound or '9092'}", "KAFKA_PORT"
    if host is None and port is None:
        return
    first = parse_listeners([given[LISTENERS].partition(",")[0]], key=LISTENERS)[0]
    told = variables[port].strip() if port is not None else str(first.port)
    given[ADVERTISED] = f"{first.name}://{variables[host].strip() if host is not None else ''}:{told}"
    origins[ADVERTISED] = host or port or ""


def _add_log_level(variables: Mapping[str, str], given: dict[str, str], origins: dict[str, str]) -> None:
    name = "KAFKA_LOG4J_ROOT_LOGLEVEL"
    level = _LEVELS.get(variables.get(name, "").strip().upper())
    if level is not None and "eosin.log.level" not in given:
        given["eosin.log.level"], origins["eosin.log.level"] = level, name


def _said_of(variables: Mapping[str, str], given: Mapping[str, str], unknown: list[str]) -> list[str]:
    """Warnings about variables as a whole."""
    warnings = []
    if unknown:
        named = [f"{name} (did you mean {near}?)" if (near := nearest(name)) else name for name in unknown]
        warnings.append(f"variables that are no settings: {', '.join(named)}")
    factors = ("offsets.topic.replication.factor", "default.replication.factor")
    shares = any(name in variables for name in ("KAFKA_ZOOKEEPER_CONNECT", "KAFKA_CFG_ZOOKEEPER_CONNECT"))
    if shares and any(given.get(key, "1") not in ("1", "-1") for key in factors):
        warnings.append(
            "if other brokers were meant to share a ZooKeeper with this one: they are no cluster, each runs alone"
            " (docs/cluster.md)"
        )
    if sum(name in variables for name in _WHOLE_STACK) > 1:
        warnings.append("this is a broker only: no schema registry, no Connect, no REST proxy and no user interface")
    return warnings


def _topics(variables: Mapping[str, str]) -> tuple[FirstTopic, ...]:
    for name in _TOPICS:
        text = variables.get(name, "")
        if text.strip():
            separator = variables.get("KAFKA_CREATE_TOPICS_SEPARATOR", "") or ","
            if separator in ("\\n", "$'\\n'"):
                separator = "\n"
            return parse_first_topics(text, key=name, separator=separator)
    return ()


def _is_bitnamis(variables: Mapping[str, str]) -> bool:
    return any(name.startswith("KAFKA_CFG_") for name in variables)


def _has_users(given: Mapping[str, str], users: list[str]) -> bool:
    return bool(users) or any(key.endswith(("sasl.jaas.config", "sasl.oauthbearer.jwks.endpoint.url")) for key in given)


def _open_beside_secured(given: Mapping[str, str], protocols: Mapping[str, str]) -> list[str]:
    """The listeners that are open beside secured ones, by the word of whoever wrote `NAME:PLAINTEXT`. Raises
    SettingError for one that nobody has called so: it may have been forgotten."""
    mapped = protocol_map(_items(given.get(PROTOCOL_MAP, "")))
    found = []
    for listener in parse_listeners(_items(given.get(LISTENERS, "")), key=LISTENERS):
        is_here = listener.host == "localhost" or listener.host.startswith("127.")
        if protocols[listener.name] != "PLAINTEXT" or is_here:
            continue
        if mapped.get(listener.name) != "PLAINTEXT":
            raise SettingError(
                f"listener {listener} lets everyone read and write beside secured ones; secure it, leave it out, or say"
                f" {listener.name}:PLAINTEXT in KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"
            )
        found.append(listener.name)
    return found


def _items(text: str) -> list[str]:
    return [each for each in (part.strip() for part in text.split(",")) if each]
