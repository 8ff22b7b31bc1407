"""Check the settings of SASL together, and read `sasl.jaas.config` (security.md 3.1, 3.5, 3.8)."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from eosin.protocol.sasl.jaas import JaasEntry, JaasError, parse_jaas
from eosin.protocol.sasl.steps import Mechanism
from eosin.settings.listeners import SASL_PROTOCOLS
from eosin.settings.settings import SettingError

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
JAAS_KEY: Final = "sasl.jaas.config"
SERVED: Final = (Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256, Mechanism.PLAIN, Mechanism.OAUTHBEARER)
_IN_THE_CLEAR: Final = (Mechanism.PLAIN, Mechanism.OAUTHBEARER)
"""Mechanisms whose secrets a reader of the wire could use to log in."""
_JAVA: Final = "org.apache.kafka.common.security.oauthbearer"
_STOOD_IN_FOR: Final = {
    "sasl.server.callback.handler.class": (
        f"{_JAVA}.OAuthBearerValidatorCallbackHandler",
        f"{_JAVA}.secured.OAuthBearerValidatorCallbackHandler",
    ),
    "sasl.oauthbearer.jwt.validator.class": (f"{_JAVA}.BrokerJwtValidator", f"{_JAVA}.DefaultJwtValidator"),
}
"""Kafka's own classes, which mean what Eosin does anyway (security.md 3.6.9); second names are of other releases."""
SHORTEST_REAUTH_MS: Final = 10_000
"""Clients renew their login so long before its end that a shorter one keeps them busy with nothing else."""


def check_sasl(config: "BrokerConfig") -> list[str]:
    """Refuse what no listener can be, and warn of what is dangerous. Raises `SettingError`."""
    warnings: list[str] = []
    for listener in config.bound_listeners:
        protocol = config.protocols[listener.name]
        if protocol not in SASL_PROTOCOLS:
            continue
        enabled = _enabled(config, listener.name)
        is_open = protocol == "SASL_PLAINTEXT" and not is_loopback(listener.host)
        for mechanism in _IN_THE_CLEAR:
            if is_open and mechanism in enabled and not config.eosin_allow_cleartext_passwords:
                raise SettingError(
                    f"listener {listener} would take passwords in the clear by {mechanism}: use SASL_SSL, leave"
                    f" {mechanism} out of {MECHANISMS_KEY}, or say eosin.allow.cleartext.passwords=true"
                )
        if Mechanism.OAUTHBEARER in enabled:
            _check_oauthbearer(config, listener.name)
        if is_open:
            warnings.append(
                f"listener {listener} has no TLS: everything on it can be read, and its passwords guessed from that"
            )
        for mechanism in enabled:
            lifetime_ms = config.for_listener("connections.max.reauth.ms", listener.name, mechanism=mechanism)
            if 0 < lifetime_ms < SHORTEST_REAUTH_MS:
                warnings.append(
                    f"connections.max.reauth.ms of {lifetime_ms} on listener {listener.name} keeps clients busy with"
                    f" logins; give them {SHORTEST_REAUTH_MS} or more"
                )
                break
        jaas_users(config, listener.name)
    return warnings


def jaas_users(config: "BrokerConfig", listener: str) -> Mapping[str, str]:
    """The passwords by name that `sasl.jaas.config` gives for PLAIN on a listener. Raises `SettingError`."""
    secret = config.for_listener(JAAS_KEY, listener, mechanism=Mechanism.PLAIN)
    if secret is None:
        return {}
    try:
        entry: JaasEntry = parse_jaas(secret.reveal())
    except JaasError as error:
        raise SettingError(f"{JAAS_KEY} of listener {listener}: {error}") from None
    return entry.users if entry.module.fits(Mechanism.PLAIN) else {}


def of_tokens(config: "BrokerConfig", listener: str, key: str) -> Any:
    """The value of a setting of OAUTHBEARER on a listener."""
    return config.for_listener(key, listener, mechanism=Mechanism.OAUTHBEARER)


def _check_oauthbearer(config: "BrokerConfig", listener: str) -> None:
    """Without keys, an issuer and an audience nobody is let in, so there is no start either (CVE-2026-110985)."""
    for key, known in _STOOD_IN_FOR.items():
        given = of_tokens(config, listener, key)
        if given is not None and given not in known:
            raise SettingError(f"{key} names a class of Java, which Eosin cannot run; it stands in for {known[0]} only")
    url = of_tokens(config, listener, "sasl.oauthbearer.jwks.endpoint.url")
    if url is None or not url.startswith(("https://", "file:///")):
        raise SettingError(
            "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, an https:// address or a file:// of the keys that"
            " tokens are signed with"
        )
    if not of_tokens(config, listener, "eosin.oauthbearer.allow.any.audience") and not (
        of_tokens(config, listener, "sasl.oauthbearer.expected.issuer")
        and of_tokens(config, listener, "sasl.oauthbearer.expected.audience")
    ):
        raise SettingError(
            "OAUTHBEARER needs sasl.oauthbearer.expected.issuer and sasl.oauthbearer.expected.audience: without them a"
            " token for anything else would do; eosin.oauthbearer.allow.any.audience=true does without"
        )
    try:
        import jwt  # noqa: F401
    except ImportError:
        raise SettingError("OAUTHBEARER needs PyJWT: pip install 'eosin[oauth]'") from None


def _enabled(config: "BrokerConfig", listener: str) -> Any:
    enabled = config.for_listener(MECHANISMS_KEY, listener)
    if not enabled:
        raise SettingError(f"{MECHANISMS_KEY} of listener {listener} must name at least one of {', '.join(SERVED)}")
    for each in enabled:
        if each == "GSSAPI":
            raise SettingError("GSSAPI (Kerberos) is not supported; use SCRAM-SHA-512, OAUTHBEARER or SSL")
        if each not in SERVED:
            raise SettingError(f"{MECHANISMS_KEY} of listener {listener} must be of {', '.join(SERVED)}, not {each!r}")
    return enabled


def is_loopback(host: str) -> bool:
    """True if a host is this machine, as far as its text tells."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
