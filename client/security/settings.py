"""Kafka's client settings of security, from a properties file or a mapping, to one checked value.

Always true: what cannot be used is a `SecuritySettingError`, one sentence that names the setting and never its value
where that could be a secret; a setting of security that is not known is refused, since ignoring it could open a door.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from eosin.protocol.properties import parse_properties
from eosin.protocol.sasl.jaas import JaasEntry, JaasError, parse_jaas
from eosin.protocol.sasl.steps import Mechanism

MAX_FILE_BYTES: Final = 1 << 20


class SecuritySettingError(ValueError):
    """Says what is wrong with the settings, in one sentence."""


class ClientSecurityProtocol(StrEnum):
    """The protocol that a listener speaks."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """True if the bytes are encrypted."""
        return self in (ClientSecurityProtocol.SSL, ClientSecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """True if the client logs in."""
        return self in (ClientSecurityProtocol.SASL_PLAINTEXT, ClientSecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The authorities that are trusted, and the certificate that identifies this client."""

    truststore_location: str | None = None
    truststore_certificates: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_type: str | None = None
    keystore_location: str | None = None
    keystore_key: str | None = field(default=None, repr=False)
    keystore_certificate_chain: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    keystore_type: str | None = None
    key_password: str | None = field(default=None, repr=False)
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    is_host_name_checked: bool = True
    is_trust_checked: bool = True
    """False takes any certificate: for a health check of a broker that is known otherwise."""


@dataclass(frozen=True, slots=True)
class Login:
    """A client's user, and the proof of it."""

    mechanism: Mechanism
    user: str = ""
    """Empty with a token."""
    password: str = field(default="", repr=False)
    token_url: str = ""
    """The source of a token: `file:` or `https:`."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""

    @property
    def who(self) -> str:
        """For error messages."""
        return repr(self.user) if self.user else "the bearer of this token"


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Settings to reach a broker safely. The default is today's plain connection."""

    protocol: ClientSecurityProtocol = ClientSecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    login: Login | None = None


_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_USER: Final = "eosin.sasl.username"
_PASSWORD_FILE: Final = "eosin.sasl.password.file"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE: Final = "sasl.oauthbearer.scope"
_ENDPOINT: Final = "ssl.endpoint.identification.algorithm"
_VERSIONS: Final = "ssl.enabled.protocols"
_STORES: Final = {
    "ssl.truststore.location": "truststore_location",
    "ssl.truststore.certificates": "truststore_certificates",
    "ssl.truststore.password": "truststore_password",
    "ssl.truststore.type": "truststore_type",
    "ssl.keystore.location": "keystore_location",
    "ssl.keystore.key": "keystore_key",
    "ssl.keystore.certificate.chain": "keystore_certificate_chain",
    "ssl.keystore.password": "keystore_password",
    "ssl.keystore.type": "keystore_type",
    "ssl.key.password": "key_password",
}
USED: Final = frozenset(
    {_PROTOCOL, _MECHANISM, _JAAS, _USER, _PASSWORD_FILE, _TOKEN_URL, _CLIENT_ID, _CLIENT_SECRET, _SCOPE}
    | {_ENDPOINT, _VERSIONS, *_STORES}
)
"""The settings that mean something here."""

_OF_SECURITY: Final = ("security.", "ssl.", "sasl.", "eosin.")
_UNUSED: Final = re.compile(
    r"security\.providers|ssl\.(protocol|provider|(key|trust)manager\.algorithm|secure\.random\.implementation)"
    r"|sasl\.(login|client)\..*|sasl\.kerberos\..*"
)
"""Settings of Java classes and of Kerberos: without a meaning here, and without harm when they are left out."""
_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_STORE_TYPES: Final = ("PEM", "PKCS12")


def read_settings(path: str) -> SecuritySettings:
    """The settings in a properties file (`--command-config`). Raises SecuritySettingError."""
    text = _read(path)
    try:
        return security_settings(dict(parse_properties(text)))
    except SecuritySettingError as error:
        raise SecuritySettingError(f"{path}: {error}") from None


def security_settings(given: Mapping[str, str]) -> SecuritySettings:
    """Settings by Kafka's names; those that are not of security are left alone. Raises SecuritySettingError."""
    given = {key: value.strip() if key != _JAAS else value for key, value in given.items()}
    _refuse_unknown(given)
    name = given.get(_PROTOCOL, "PLAINTEXT").upper()
    try:
        protocol = ClientSecurityProtocol(name)
    except ValueError:
        raise SecuritySettingError(
            f"{_PROTOCOL} must be one of {_any_of(ClientSecurityProtocol)}, not {name!r}"
        ) from None
    for has, prefixes, what in (
        (protocol.has_tls, ("ssl.",), "SSL or SASL_SSL"),
        (protocol.has_sasl, ("sasl.", "eosin.sasl."), "SASL_SSL or SASL_PLAINTEXT"),
    ):
        meaningless = [key for key in given if key.startswith(prefixes) and key in USED and not has]
        if meaningless:
            raise SecuritySettingError(f"{meaningless[0]} needs {_PROTOCOL} {what}, which is {protocol}")
    return SecuritySettings(
        protocol, _tls(given) if protocol.has_tls else None, _login(given) if protocol.has_sasl else None
    )


def _refuse_unknown(given: Iterable[str]) -> None:
    for key in given:
        if key.startswith(_OF_SECURITY) and key not in USED and not _UNUSED.fullmatch(key):
            raise SecuritySettingError(f"{key} is not a setting of security that this client knows")


def _tls(given: Mapping[str, str]) -> TlsSettings:
    stores: dict[str, Any] = {name: given[key] for key, name in _STORES.items() if given.get(key)}
    algorithm = given.get(_ENDPOINT, "https")
    if algorithm.lower() not in ("https", ""):
        raise SecuritySettingError(f"{_ENDPOINT} must be https, or empty to take any host name, not {algorithm!r}")
    versions = tuple(each.strip() for each in given.get(_VERSIONS, ",".join(_TLS_VERSIONS)).split(","))
    if not set(versions) <= set(_TLS_VERSIONS):
        raise SecuritySettingError(f"{_VERSIONS} can hold {' and '.join(_TLS_VERSIONS)} only")
    for store in ("truststore", "keystore"):
        kind = stores.get(f"{store}_type", "PEM").upper()
        if kind not in _STORE_TYPES:
            advice = "; keytool -importkeystore ... -deststoretype PKCS12 converts it" if kind == "JKS" else ""
            raise SecuritySettingError(f"ssl.{store}.type must be one of {', '.join(_STORE_TYPES)}{advice}")
    tls = TlsSettings(enabled_protocols=versions, is_host_name_checked=algorithm != "", **stores)
    if tls.truststore_location and tls.truststore_certificates:
        raise SecuritySettingError("ssl.truststore.location and ssl.truststore.certificates exclude each other")
    if (tls.keystore_key is None) != (tls.keystore_certificate_chain is None):
        raise SecuritySettingError("ssl.keystore.key and ssl.keystore.certificate.chain belong together")
    if tls.keystore_location and tls.keystore_key:
        raise SecuritySettingError("ssl.keystore.location and ssl.keystore.key exclude each other")
    return tls


def _login(given: Mapping[str, str]) -> Login:
    name = given.get(_MECHANISM, "GSSAPI")
    try:
        mechanism = Mechanism(name)
    except ValueError:
        hint = " (Kafka's default)" if _MECHANISM not in given else ""
        raise SecuritySettingError(f"{_MECHANISM} must be one of {_any_of(Mechanism)}, not {name!r}{hint}") from None
    jaas = _jaas(given[_JAAS], mechanism) if _JAAS in given else None
    if mechanism is Mechanism.OAUTHBEARER:
        return _bearer(given, jaas)
    if jaas is not None:
        if _USER in given or _PASSWORD_FILE in given:
            raise SecuritySettingError(f"{_JAAS} and {_USER} exclude each other")
        user, password = jaas.options.get("username", ""), jaas.options.get("password", "")
        if not user or not password:
            raise SecuritySettingError(f"{_JAAS} needs username=... and password=...")
    else:
        user = given.get(_USER, "")
        if not user or not given.get(_PASSWORD_FILE):
            raise SecuritySettingError(f"{mechanism} needs {_JAAS}, or {_USER} and {_PASSWORD_FILE}")
        password = _read(given[_PASSWORD_FILE]).rstrip("\r\n")
        if not password:
            raise SecuritySettingError(f"the file of {_PASSWORD_FILE} is empty")
    if "\0" in user + password:
        raise SecuritySettingError("a user or password cannot hold a NUL")
    return Login(mechanism, user, password)


def _bearer(given: Mapping[str, str], jaas: JaasEntry | None) -> Login:
    url = given.get(_TOKEN_URL, "")
    if not url:
        raise SecuritySettingError(f"{Mechanism.OAUTHBEARER} needs {_TOKEN_URL}")
    options = jaas.options if jaas is not None else {}
    login = Login(
        Mechanism.OAUTHBEARER,
        token_url=url,
        client_id=given.get(_CLIENT_ID) or options.get("clientId", ""),
        client_secret=given.get(_CLIENT_SECRET) or options.get("clientSecret", ""),
        scope=given.get(_SCOPE) or options.get("scope", ""),
    )
    if url.startswith("file:"):
        return login
    if not re.match(r"https://|http://(localhost|127\.0\.0\.1|\[::1\])[:/]", url):
        raise SecuritySettingError(f"{_TOKEN_URL} must begin with https:// or file:, or with http:// on this machine")
    if not login.client_id or not login.client_secret:
        raise SecuritySettingError(f"{_TOKEN_URL} needs {_CLIENT_ID} and {_CLIENT_SECRET}")
    return login


def _jaas(text: str, mechanism: Mechanism) -> JaasEntry:
    try:
        entry = parse_jaas(text)
    except JaasError as error:
        raise SecuritySettingError(f"{_JAAS} {error}") from None
    if not entry.module.fits(mechanism):
        raise SecuritySettingError(f"{_JAAS} names the login module of another mechanism than {mechanism}")
    return entry


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise SecuritySettingError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        return content.decode("utf-8")
    except OSError as error:
        raise SecuritySettingError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SecuritySettingError(f"{path} is no text in UTF-8") from None


def _any_of(names: Iterable[str]) -> str:
    return ", ".join(names)
