"""`ListenerTlsSettings`: what one listener's TLS is made from, complete and checked as far as no file has to be read
(security.md 2.2).

The combinations that are refused are those that Apache Kafka's DefaultSslEngineFactory refuses, and some that it would
misunderstand without a word.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eosin.security.tls.ciphers import TLS13, chosen_ciphers
from eosin.security.tls.principal_rules import parse_rules
from eosin.settings.http import HTTP
from eosin.settings.listeners import TLS_PROTOCOLS
from eosin.settings.security import PER_LISTENER, prefixed
from eosin.settings.settings import Secret, SettingError

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStoreSettings:
    """The place of the private key and its certificates."""

    type: str | None
    location: str | None
    password: Secret | None
    key: Secret | None
    certificate_chain: Secret | None
    key_password: Secret | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStoreSettings:
    """The place of the certificates to which a client's certificate must lead."""

    type: str | None
    location: str | None
    password: Secret | None
    certificates: Secret | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTlsSettings:
    """The settings of one listener."""

    listener: str
    key_store: KeyStoreSettings
    trust_store: TrustStoreSettings | None
    client_auth: str
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    mapping_rules: str
    allow_dn_changes: bool
    allow_san_changes: bool
    crl_location: str | None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read again when they change."""
        return (*filter(None, (self.key_store.location,)), *self.trust_files)

    @property
    def trust_files(self) -> tuple[str, ...]:
        """The files that decide about the certificates of clients."""
        trusted = None if self.trust_store is None else self.trust_store.location
        return tuple(path for path in (trusted, self.crl_location) if path is not None)


def check_tls(config: "BrokerConfig") -> list[str]:
    """Check the settings of every listener with TLS; what the author should be told. Raises `SettingError`."""
    warnings: list[str] = []
    for name, protocol in config.protocols.items():
        if protocol in TLS_PROTOCOLS:
            settings = tls_settings(config, name)
            missing = [suite for suite in TLS13 if settings.cipher_suites and suite not in settings.cipher_suites]
            if missing and "TLSv1.3" in settings.protocols:
                warnings.append(
                    f"listener {name} serves all suites of TLS 1.3, also {', '.join(missing)}: ssl.cipher.suites"
                    " concerns TLS 1.2 only"
                )
    if config.eosin_http_ssl_enable:
        http_tls_settings(config)
        return warnings
    is_linked = config.is_joined and config.controller_protocol in TLS_PROTOCOLS
    if not is_linked and not any(protocol in TLS_PROTOCOLS for protocol in config.protocols.values()):
        unused = sorted(key for key in config.given if key in PER_LISTENER) + sorted(config.overrides)
        unused = [key for key in unused if "ssl." in key]
        if unused:
            warnings.append(f"Settings of TLS, which no listener speaks: {', '.join(unused)}")
    return warnings


def tls_settings(config: "BrokerConfig", listener: str) -> ListenerTlsSettings:
    """The settings of one listener with TLS. Raises `SettingError`."""

    return _settings(config, listener, _client_auth(config, listener))


def http_tls_settings(config: "BrokerConfig") -> ListenerTlsSettings:
    """The settings of the HTTP listener. It asks for certificates of clients only where its own settings say so: what
    scrapes metrics has none as a rule. Raises `SettingError`."""
    key = "ssl.client.auth"
    auth = config.for_listener(key, HTTP) if prefixed(key, HTTP) in config.overrides else "none"
    return _settings(config, HTTP, auth)


def _settings(config: "BrokerConfig", listener: str, client_auth: str) -> ListenerTlsSettings:
    def get(key: str) -> Any:
        return config.for_listener(key, listener)

    settings = ListenerTlsSettings(
        listener=listener,
        key_store=_needed(key_store_of(get), listener),
        trust_store=trust_store_of(get),
        client_auth=client_auth,
        protocols=get("ssl.enabled.protocols"),
        cipher_suites=get("ssl.cipher.suites"),
        mapping_rules=get("ssl.principal.mapping.rules"),
        allow_dn_changes=get("ssl.allow.dn.changes"),
        allow_san_changes=get("ssl.allow.san.changes"),
        crl_location=get("eosin.ssl.crl.location"),
    )
    if settings.client_auth != "none" and settings.trust_store is None:
        raise SettingError(
            f"listener {listener} asks clients for certificates (ssl.client.auth={settings.client_auth}), so it needs"
            " ssl.truststore.location: without one, a certificate of anybody would do"
        )
    if settings.crl_location is not None and settings.trust_store is None:
        raise SettingError(
            "eosin.ssl.crl.location needs ssl.truststore.location: only clients' certificates are checked"
        )
    if not settings.protocols:
        raise SettingError("ssl.enabled.protocols must name TLSv1.2, TLSv1.3 or both")
    chosen_ciphers(settings.cipher_suites, settings.protocols)
    parse_rules(settings.mapping_rules)
    return settings


def _client_auth(config: "BrokerConfig", listener: str) -> str:
    """Without the listener's prefix it does not concern a listener that has SASL (KIP-684)."""
    key = "ssl.client.auth"
    if config.protocols[listener] == "SASL_SSL" and prefixed(key, listener) not in config.overrides:
        return "none"
    value: str = config.for_listener(key, listener)
    return value


def _needed(store: KeyStoreSettings | None, listener: str) -> KeyStoreSettings:
    if store is None:
        raise SettingError(
            f"listener {listener} speaks TLS, so it needs ssl.keystore.location: a file with the private key and its"
            " certificates (eosin certs dev makes one to try)"
        )
    return store


def key_store_of(get: Callable[[str], Any]) -> KeyStoreSettings | None:
    """The key store of a listener, whose settings `get` gives; None without one. Raises `SettingError`."""
    store = KeyStoreSettings(
        type=_type(get, "ssl.keystore.type"),
        location=get("ssl.keystore.location"),
        password=get("ssl.keystore.password"),
        key=get("ssl.keystore.key"),
        certificate_chain=get("ssl.keystore.certificate.chain"),
        key_password=get("ssl.key.password"),
    )
    if store.location is None and store.key is None and store.certificate_chain is None:
        return None
    if (store.key is None) is not (store.certificate_chain is None):
        raise SettingError("ssl.keystore.key and ssl.keystore.certificate.chain must be given both or neither")
    if store.key is not None:
        if store.location is not None:
            raise SettingError("one of ssl.keystore.location and ssl.keystore.key must be given, not both")
        if store.type not in (None, PEM):
            raise SettingError(f"ssl.keystore.key is PEM, so ssl.keystore.type must not be {store.type}")
    if store.password is not None and (store.key is not None or store.type == PEM):
        raise SettingError("ssl.keystore.password is not for PEM; the password of its key is ssl.key.password")
    if store.type == PKCS12 and store.password is None:
        raise SettingError("a key store of type PKCS12 needs ssl.keystore.password")
    return store


def trust_store_of(get: Callable[[str], Any]) -> TrustStoreSettings | None:
    """The trust store of a listener, likewise. Raises `SettingError`."""
    store = TrustStoreSettings(
        type=_type(get, "ssl.truststore.type"),
        location=get("ssl.truststore.location"),
        password=get("ssl.truststore.password"),
        certificates=get("ssl.truststore.certificates"),
    )
    if store.location is None and store.certificates is None:
        if store.password is not None:
            raise SettingError("ssl.truststore.password is given, but no ssl.truststore.location")
        return None
    if store.certificates is not None:
        if store.location is not None:
            raise SettingError("one of ssl.truststore.location and ssl.truststore.certificates must be given, not both")
        if store.type not in (None, PEM):
            raise SettingError(f"ssl.truststore.certificates is PEM, so ssl.truststore.type must not be {store.type}")
    if store.password is not None and (store.certificates is not None or store.type == PEM):
        raise SettingError("ssl.truststore.password is not for PEM, which has none")
    return store


def _type(get: Callable[[str], Any], key: str) -> str | None:
    given: str | None = get(key)
    if given is None:
        return None
    name = given.upper()
    if name == JKS:
        raise SettingError(f"{key} must be PEM or PKCS12; convert the file: {convert_jks('OLD.jks')}")
    if name not in (PEM, PKCS12):
        raise SettingError(f"{key} must be PEM or PKCS12, not {given!r}")
    return name


def convert_jks(path: str) -> str:
    """The command that makes a PKCS12 store of a JKS one."""
    return f"keytool -importkeystore -srckeystore {path} -destkeystore NEW.p12 -deststoretype PKCS12"
