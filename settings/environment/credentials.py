"""Users and stores that variables name: Bitnami's lists of users, a JAAS file of the JVM, and the stores of TLS.

Always true: no user and no password comes from anywhere but what was given; no sentence repeats a password.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eosin.protocol.sasl.jaas import JaasError, LoginModule, parse_jaas
from eosin.settings.environment.files import NamedFiles
from eosin.settings.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from eosin.settings.security import prefixed
from eosin.settings.settings import SettingError

SECRETS: Final = "/etc/kafka/secrets"
"""The directory of Confluent's and Apache's images for the files of TLS."""
CERTS: Final = ("/bitnami/kafka/config/certs", "/opt/bitnami/kafka/config/certs")
"""Bitnami's, as it is mounted and as its image copies it."""
MECHANISMS: Final = "sasl.enabled.mechanisms"

_JAAS_FILE: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(\"[^\"]*\"|'[^']*'|\S+)")
_JAAS_SECTION: Final = re.compile(r"([\w.-]+)\s*\{((?:\"(?:[^\"\\]|\\.)*\"|[^{}\"])*)\}\s*;")
_JAAS_ENTRY: Final = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"|[^;\"])+;")
_SERVER: Final = "KafkaServer"
_STORES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
_PASSWORDS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
_SECRET_FILE: Final = re.compile(r"((KAFKA|EOSIN)_.*(USERS?|PASSWORDS?))_FILE")


@dataclass(slots=True)
class FoundCredentials:
    """Settings of users and stores, each with the variable that it comes from, and the users to add."""

    settings: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    users: list[str] = field(default_factory=list)
    """As `--add-scram` has them."""

    def put(self, key: str, text: str, *, variable: str) -> None:
        """Add one setting."""
        self.settings[key], self.origins[key] = text, variable


def with_secret_files(variables: Mapping[str, str], files: NamedFiles) -> dict[str, str]:
    """The variables, with the content of the file for each `NAME_FILE` whose NAME is a secret and not given. Raises
    SettingError."""
    whole = dict(variables)
    for name, path in variables.items():
        found = _SECRET_FILE.fullmatch(name)
        if found is not None and path.strip() and not variables.get(found[1], "").strip():
            whole[found[1]] = files.text(path.strip(), variable=name)
    return whole


def credentials_of(
    variables: Mapping[str, str], given: Mapping[str, str], *, protocols: Mapping[str, str], files: NamedFiles
) -> FoundCredentials:
    """The users and stores of the listeners in `protocols`; `given` are the settings without them. Raises
    SettingError."""
    found = FoundCredentials()
    _add_stores(found, variables, files)
    if any(each in TLS_PROTOCOLS for each in protocols.values()) and "KAFKA_TLS_TYPE" in variables:
        _add_bitnamis_stores(found, variables, given, protocols, files)
    with_sasl = [name for name, protocol in protocols.items() if protocol in SASL_PROTOCOLS]
    if with_sasl:
        _add_jaas_file(found, variables, with_sasl, files)
        _add_bitnamis_users(found, variables, given, with_sasl)
    return found


# TLS ----------------------------------------------------------------------------------------------------------------


def _add_stores(found: FoundCredentials, variables: Mapping[str, str], files: NamedFiles) -> None:
    """Confluent's short names of files, all in one directory."""
    for variable, key in _STORES.items():
        if name := variables.get(variable, "").strip():
            found.put(key, files.found(_in(SECRETS, name), variable=variable), variable=variable)
    for variable, key in _PASSWORDS.items():
        if name := variables.get(variable, "").strip():
            found.put(key, files.text(_in(SECRETS, name), variable=variable), variable=variable)


def _add_bitnamis_stores(
    found: FoundCredentials,
    variables: Mapping[str, str],
    given: Mapping[str, str],
    protocols: Mapping[str, str],
    files: NamedFiles,
) -> None:
    """Stores at fixed places, of the type that a variable names."""
    kind = variables["KAFKA_TLS_TYPE"].strip().upper()
    if kind not in ("PEM", "JKS"):
        raise SettingError(f"KAFKA_TLS_TYPE must be PEM or JKS, not {kind!r}")
    place = next((each for each in CERTS if files.exists(f"{each}/kafka.keystore.{kind.lower()}")), CERTS[0])
    password = variables.get("KAFKA_CERTIFICATE_PASSWORD", "").strip()
    if "ssl.keystore.location" not in given:
        path = files.found(f"{place}/kafka.keystore.{kind.lower()}", variable="KAFKA_TLS_TYPE")
        if kind == "PEM":
            found.put("ssl.keystore.certificate.chain", files.text(path, variable="KAFKA_TLS_TYPE"), variable=path)
            key = f"{place}/kafka.keystore.key"
            found.put("ssl.keystore.key", files.text(key, variable="KAFKA_TLS_TYPE"), variable=key)
            found.put("ssl.keystore.type", "PEM", variable="KAFKA_TLS_TYPE")
        else:
            found.put("ssl.keystore.location", path, variable="KAFKA_TLS_TYPE")
        if password:
            key_of = "ssl.key.password" if kind == "PEM" else "ssl.keystore.password"
            found.put(key_of, password, variable="KAFKA_CERTIFICATE_PASSWORD")
    named = variables.get("KAFKA_TLS_TRUSTSTORE_FILE", "").strip()
    trust = named or f"{place}/kafka.truststore.{kind.lower()}"
    if "ssl.truststore.location" not in given and (named or files.exists(trust)):
        found.put("ssl.truststore.location", files.found(trust, variable="KAFKA_TLS_TYPE"), variable="KAFKA_TLS_TYPE")
        if kind == "JKS" and password:
            found.put("ssl.truststore.password", password, variable="KAFKA_CERTIFICATE_PASSWORD")
    for name, protocol in protocols.items():
        own = f"KAFKA_TLS_{name}_CLIENT_AUTH"
        variable = own if own in variables else "KAFKA_TLS_CLIENT_AUTH"
        if protocol == "SSL" or own in variables:
            auth = variables.get(variable, "").strip().lower() or "required"
            found.put(prefixed("ssl.client.auth", name), auth, variable=variable)


# SASL ---------------------------------------------------------------------------------------------------------------


def _add_jaas_file(
    found: FoundCredentials, variables: Mapping[str, str], listeners: Sequence[str], files: NamedFiles
) -> None:
    """The users of PLAIN in the file that the JVM would read."""
    named = _JAAS_FILE.search(variables.get("KAFKA_OPTS", ""))
    if named is None:
        return
    path = named[1].strip("\"'")
    text = re.sub(r"/\*.*?\*/|(?m:^\s*(//|#)[^\n]*$)", "", files.text(path, variable="KAFKA_OPTS"), flags=re.DOTALL)
    sections = {name: body.strip() for name, body in _JAAS_SECTION.findall(text)}
    for listener in listeners:
        body = sections.get(f"{listener.lower()}.{_SERVER}") or sections.get(_SERVER)
        if body is None:
            raise SettingError(f"KAFKA_OPTS: {path} has no section {_SERVER}, the one of a broker")
        for entry in _JAAS_ENTRY.findall(body):
            if "Krb5LoginModule" in entry:
                raise SettingError(
                    f"KAFKA_OPTS: {path} is for GSSAPI (Kerberos), which Eosin has not; use SCRAM or SSL"
                )
            try:
                module = parse_jaas(entry.strip()).module
            except JaasError as error:
                raise SettingError(f"KAFKA_OPTS: {path}: {error}") from None
            if module is LoginModule.PLAIN:
                key = prefixed("sasl.jaas.config", listener, "plain")
                found.put(key, entry.strip(), variable=f"KAFKA_OPTS, {path}")


def _add_bitnamis_users(
    found: FoundCredentials, variables: Mapping[str, str], given: Mapping[str, str], listeners: Sequence[str]
) -> None:
    """Users and their passwords, in lists side by side."""
    pairs = [
        *_pairs(variables, "KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS"),
        *_pairs(variables, "KAFKA_BROKER_USER", "KAFKA_BROKER_PASSWORD"),
        *_pairs(variables, "KAFKA_INTER_BROKER_USER", "KAFKA_INTER_BROKER_PASSWORD"),
    ]
    users: dict[str, str] = {}
    for name, password in pairs:
        users.setdefault(name, password)
    if not users:
        return
    for listener in listeners:
        text = given.get(prefixed(MECHANISMS, listener)) or given.get(MECHANISMS, "SCRAM-SHA-512,SCRAM-SHA-256")
        mechanisms = [each.strip().upper() for each in text.split(",")]
        key = prefixed("sasl.jaas.config", listener, "plain")
        if "PLAIN" in mechanisms and key not in given and key not in found.settings:
            options = " ".join(f'user_{name}="{_escaped(password)}"' for name, password in users.items())
            found.put(key, f"{LoginModule.PLAIN.value} required {options};", variable="KAFKA_CLIENT_USERS")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            if mechanism in mechanisms:
                found.users += [_scram(mechanism, name, password) for name, password in users.items()]
    found.users = list(dict.fromkeys(found.users))


def _pairs(variables: Mapping[str, str], names: str, passwords: str) -> Sequence[tuple[str, str]]:
    users, secrets = (_list(variables.get(each, "")) for each in (names, passwords))
    if len(users) != len(secrets):
        raise SettingError(
            f"{names} has {len(users)} and {passwords} has {len(secrets)}: each user needs a password of its own, and"
            " there is no default one"
        )
    return list(zip(users, secrets, strict=True))


def _list(text: str) -> list[str]:
    return [each for each in (part.strip() for part in re.split("[,;]", text)) if each]


def _scram(mechanism: str, name: str, password: str) -> str:
    return f"{mechanism}=[name={name},password={password}]"


def _escaped(password: str) -> str:
    return password.replace("\\", "\\\\").replace('"', '\\"')


def _in(directory: str, name: str) -> str:
    return name if name.startswith("/") else f"{directory}/{name}"
