"""`LinkSettings`: how a broker of a quorum connects to other brokers, and to controllers: checked as far as no file has
to be read (cluster.md 7.2).

Keys, and the order in which a listener's own come before the broker's, are Kafka's: what `listener.name.NAME.KEY` says
of the listener that is dialled, else KEY. A broker identifies itself with the key store and the entry of
`sasl.jaas.config` that its own listener of that name has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eosin.client.security.settings import Login
from eosin.protocol.sasl.jaas import JaasError, parse_jaas
from eosin.protocol.sasl.steps import Mechanism
from eosin.security.sasl.settings import JAAS_KEY, is_loopback
from eosin.security.tls.ciphers import chosen_ciphers
from eosin.security.tls.settings import KeyStoreSettings, TrustStoreSettings, key_store_of, trust_store_of
from eosin.settings.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from eosin.settings.security import prefixed
from eosin.settings.settings import SettingError

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

BROKERS_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
CONTROLLERS_MECHANISM: Final = "sasl.mechanism.controller.protocol"
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
_MECHANISMS: Final = (Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256, Mechanism.PLAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTls:
    """The authorities that are trusted at the other end of a link, and the certificate that identifies this broker."""

    listener: str
    key_store: KeyStoreSettings | None
    trust_store: TrustStoreSettings | None
    """None trusts the authorities of the system."""
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    is_host_name_checked: bool
    allow_dn_changes: bool
    allow_san_changes: bool
    is_to_controllers: bool

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read again when they change."""
        stores = (self.key_store, self.trust_store)
        return tuple(store.location for store in stores if store is not None and store.location is not None)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """The encryption and the login of a connection before its first request; plain where both are None."""

    tls: LinkTls | None
    login: Login | None


def check_links(config: "BrokerConfig") -> list[str]:
    """Check both kinds of links of a broker that joins a quorum; what its author should be told. Raises
    `SettingError`."""
    return [*_warnings(config, to_brokers(config)), *_warnings(config, to_controllers(config))]


def to_brokers(config: "BrokerConfig") -> LinkSettings:
    """The settings of links to other brokers. Raises `SettingError`."""
    listener, protocol = config.inter_broker_listener, config.inter_broker_protocol
    login = None
    if protocol in SASL_PROTOCOLS:
        login = _login(config, listener, BROKERS_MECHANISM)
        enabled = config.for_listener("sasl.enabled.mechanisms", listener)
        if login.mechanism not in enabled:
            raise SettingError(
                f"{BROKERS_MECHANISM} must be one of the sasl.enabled.mechanisms of listener {listener},"
                f" {', '.join(enabled) or 'which has none'}, not {login.mechanism}"
            )
    return LinkSettings(_tls(config, listener) if protocol in TLS_PROTOCOLS else None, login)


def to_controllers(config: "BrokerConfig") -> LinkSettings:
    """The settings of links to controllers. Raises `SettingError`."""
    listener, protocol = config.controller_listener, config.controller_protocol
    login = _login(config, listener, CONTROLLERS_MECHANISM) if protocol in SASL_PROTOCOLS else None
    has_tls = protocol in TLS_PROTOCOLS
    in_the_clear = login is not None and login.mechanism is Mechanism.PLAIN and not has_tls
    if in_the_clear and not _are_here(config) and not config.eosin_allow_cleartext_passwords:
        raise SettingError(
            f"the broker would send its password to the controllers in the clear by PLAIN: let {listener} be SASL_SSL,"
            f" use SCRAM-SHA-512 for {CONTROLLERS_MECHANISM}, or say eosin.allow.cleartext.passwords=true"
        )
    return LinkSettings(_tls(config, listener) if has_tls else None, login)


def _warnings(config: "BrokerConfig", link: LinkSettings) -> Iterator[str]:
    if link.tls is not None and not link.tls.is_host_name_checked:
        yield (
            f"names in certificates at {link.tls.listener} are not checked ({IDENTIFICATION}): whoever has any"
            " certificate that the trust store takes can pose as a node there"
        )


def _are_here(config: "BrokerConfig") -> bool:
    """True if no controller that is asked first is on another machine."""
    hosts = [host for host, _ in config.controllers] + [voter.host for voter in config.voters]
    return all(map(is_loopback, hosts))


def _tls(config: "BrokerConfig", listener: str) -> LinkTls:
    def get(key: str) -> Any:
        return config.for_listener(key, listener)

    algorithm = get(IDENTIFICATION).lower()
    if algorithm not in ("https", ""):
        raise SettingError(f"{IDENTIFICATION} must be https, or empty, not {algorithm!r}")
    tls = LinkTls(
        listener=listener,
        key_store=key_store_of(get),
        trust_store=trust_store_of(get),
        protocols=get("ssl.enabled.protocols"),
        cipher_suites=get("ssl.cipher.suites"),
        is_host_name_checked=algorithm == "https",
        allow_dn_changes=get("ssl.allow.dn.changes"),
        allow_san_changes=get("ssl.allow.san.changes"),
        is_to_controllers=listener == config.controller_listener,
    )
    if tls.trust_store is None and not tls.is_host_name_checked:
        raise SettingError(
            f"the broker connects to {listener}, whose names it does not check ({IDENTIFICATION}), so it needs"
            " ssl.truststore.location: without one, a certificate of anybody would do"
        )
    if not tls.protocols:
        raise SettingError("ssl.enabled.protocols must name TLSv1.2, TLSv1.3 or both")
    chosen_ciphers(tls.cipher_suites, tls.protocols)
    return tls


def _login(config: "BrokerConfig", listener: str, mechanism_key: str) -> Login:
    given = config.value(mechanism_key)
    if given not in _MECHANISMS:
        default = " (Kafka's default is GSSAPI, which Eosin has not)" if given is None else f", not {given!r}"
        raise SettingError(
            f"{mechanism_key} must be one of {', '.join(_MECHANISMS)}, since {listener} asks for a login{default}"
        )
    mechanism = Mechanism(given)
    key = prefixed(JAAS_KEY, listener, mechanism)
    secret = config.for_listener(JAAS_KEY, listener, mechanism=mechanism)
    module = "PlainLoginModule" if mechanism is Mechanism.PLAIN else "ScramLoginModule"
    if secret is None:
        raise SettingError(f'{key} must say who this broker is there: {module} required username="..." password="...";')
    try:
        entry = parse_jaas(secret.reveal())
    except JaasError as error:
        raise SettingError(f"{key}: {error}") from None
    if not entry.module.fits(mechanism):
        raise SettingError(f"{key} must name {module}, the login module of {mechanism}")
    user, password = entry.options.get("username", ""), entry.options.get("password", "")
    if not user or not password:
        raise SettingError(f"{key} must say who this broker is there, by username=... and password=...")
    if "\0" in user + password:
        raise SettingError(f"{key}: a user or password cannot hold a NUL")
    return Login(mechanism, user, password)
