"""`BrokerSecuritySettings`: the settings of TLS and of connections whose peer is not known yet, and how a listener gets
its own (security.md 2.1, 2.2).

Names, meaning and defaults are Kafka's, but for those that start with `eosin.` and where the documentation says
otherwise. Each key of `PER_LISTENER` may also be written `listener.name.NAME.KEY`, with the listener's name in lower
case, for that listener alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eosin.settings.budgets import BudgetSettings
from eosin.settings.settings import Secret, SettingKind, setting

LISTENER_PREFIX: Final = "listener.name."


# `BrokerConfig` gets these methods with all fields; another set of them would only cost each start time.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class BrokerSecuritySettings(BudgetSettings):
    """The settings, typed. `BrokerConfig` inherits them."""

    eosin_allow_open_listeners: bool = setting(
        False,
        "Let listeners that others reach be open: no proof is asked of who reads and writes there (--allow-open).",
        kind=SettingKind.BOOLEAN,
    )
    eosin_ignore_acls: bool = setting(
        False,
        "Joined mode: serve everybody everything though the cluster has access control entries, for want of an"
        " authorizer.class.name.",
        kind=SettingKind.BOOLEAN,
    )
    ssl_keystore_type: str | None = setting(
        None, "PEM or PKCS12; unset: what the file is. (Kafka: JKS)", kind=SettingKind.STRING
    )
    ssl_keystore_location: str | None = setting(
        None, "The file with the private key and the chain of certificates.", kind=SettingKind.STRING
    )
    ssl_keystore_password: Secret | None = setting(
        None, "The password of a PKCS12 key store.", kind=SettingKind.PASSWORD
    )
    ssl_keystore_key: Secret | None = setting(None, "The private key itself, as PEM.", kind=SettingKind.PASSWORD)
    ssl_keystore_certificate_chain: Secret | None = setting(
        None, "The chain of certificates itself, as PEM, the broker's own first.", kind=SettingKind.PASSWORD
    )
    ssl_key_password: Secret | None = setting(
        None, "The password of an encrypted private key.", kind=SettingKind.PASSWORD
    )
    ssl_truststore_type: str | None = setting(
        None, "PEM or PKCS12; unset: what the file is. (Kafka: JKS)", kind=SettingKind.STRING
    )
    ssl_truststore_location: str | None = setting(
        None, "The file with the certificates that clients' certificates must lead to.", kind=SettingKind.STRING
    )
    ssl_truststore_password: Secret | None = setting(
        None, "The password of a PKCS12 trust store.", kind=SettingKind.PASSWORD
    )
    ssl_truststore_certificates: Secret | None = setting(
        None, "Those certificates themselves, as PEM.", kind=SettingKind.PASSWORD
    )
    ssl_client_auth: str = setting(
        "none",
        "Whether a client must, may or need not show a certificate; for SASL_SSL only with the listener's prefix.",
        kind=SettingKind.STRING,
        choices=("none", "requested", "required"),
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        ("TLSv1.2", "TLSv1.3"),
        "Versions of TLS that are served.",
        kind=SettingKind.LIST,
        choices=("TLSv1.2", "TLSv1.3"),
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        (), "Suites for TLS 1.2 by their IANA names; empty: ECDHE with AES-GCM or ChaCha20.", kind=SettingKind.LIST
    )
    ssl_principal_mapping_rules: str = setting(
        "DEFAULT",
        "How a certificate's subject becomes the name of a user: DEFAULT or RULE:pattern/replacement/[LU], by commas.",
        kind=SettingKind.STRING,
    )
    ssl_allow_dn_changes: bool = setting(
        False, "Whether a reloaded certificate may have another subject (KIP-978).", kind=SettingKind.BOOLEAN
    )
    ssl_allow_san_changes: bool = setting(
        False,
        "Whether a reloaded certificate may lack a name that the old one had (KIP-978).",
        kind=SettingKind.BOOLEAN,
    )
    eosin_ssl_reload_interval_ms: int = setting(
        10_000,
        "Between two looks for changed stores of TLS; 0: only SIGHUP reloads them.",
        kind=SettingKind.INT,
        at_least=0,
    )
    eosin_ssl_crl_location: str | None = setting(
        None,
        "A PEM file of revocation lists; clients whose certificate is on one are refused.",
        kind=SettingKind.STRING,
    )
    eosin_tls_handshakes_max: int = setting(
        256, "TLS handshakes under way at a time; further ones wait.", kind=SettingKind.INT, at_least=1, at_most=100_000
    )
    eosin_connection_setup_timeout_ms: int = setting(
        10_000,
        "A connection whose TLS and SASL are not done after this is closed.",
        kind=SettingKind.INT,
        at_least=100,
        at_most=600_000,
    )
    eosin_connection_first_byte_timeout_ms: int = setting(
        2_000,
        "A connection that has to do TLS or SASL and has sent nothing after this is closed.",
        kind=SettingKind.INT,
        at_least=100,
        at_most=600_000,
    )
    eosin_unauthenticated_connections_max: int = setting(
        1000,
        "Connections whose TLS and SASL are not done, of each listener. When there are so many, one that has sent"
        " nothing goes for the next one, or else one of the network with the most; a tenth is left to addresses that"
        " somebody has logged in from.",
        kind=SettingKind.INT,
        at_least=1,
    )
    eosin_unauthenticated_connections_per_ip_max: int = setting(
        100, "The same from one IPv4 address, or one /64 of IPv6 addresses.", kind=SettingKind.INT, at_least=1
    )


PER_LISTENER: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.principal.mapping.rules",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "eosin.ssl.crl.location",
    }
)
"""Keys that a listener may have for itself."""


def prefixed(key: str, listener: str, mechanism: str = "") -> str:
    """The key's name for one listener, and for one SASL mechanism on it."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower() + '.' if mechanism else ''}{key}"


def resolved(key: str, *, overrides: Mapping[str, Any], broker_wide: Any, listener: str, mechanism: str = "") -> Any:
    """The value of `key` on a listener: for the SASL mechanism there, else for the listener, else the broker's
    (security.md 2.1.2). `overrides` has the values of keys with a prefix."""
    if mechanism and (name := prefixed(key, listener, mechanism)) in overrides:
        return overrides[name]
    return overrides.get(prefixed(key, listener), broker_wide)


def unprefixed(written: str, listeners: frozenset[str]) -> tuple[str, str] | None:
    """The listener and the rest of a key that starts with `listener.name.`; None if it names none of `listeners` (in
    lower case). A name may hold dots, so the longest one that fits counts."""
    if not written.startswith(LISTENER_PREFIX):
        return None
    rest = written.removeprefix(LISTENER_PREFIX)
    fitting = [name for name in listeners if rest.startswith(f"{name}.")]
    if not fitting:
        return None
    name = max(fitting, key=len)
    return name, rest.removeprefix(f"{name}.")
