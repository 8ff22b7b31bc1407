"""`SaslSettings`: the settings of SASL and of users (security.md 3 and 4.1)."""

from dataclasses import dataclass
from typing import Final

from eosin.settings.security import BrokerSecuritySettings
from eosin.settings.settings import INT_MAX, Secret, SettingKind, setting


# `BrokerConfig` gets these methods with all fields; another set of them would only cost each start time.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class SaslSettings(BrokerSecuritySettings):
    """The settings, typed. `BrokerConfig` inherits them."""

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        ("SCRAM-SHA-512", "SCRAM-SHA-256"),
        "The mechanisms of listeners with SASL: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, OAUTHBEARER. (Kafka: GSSAPI)",
        kind=SettingKind.LIST,
    )
    sasl_jaas_config: Secret | None = setting(
        None,
        'PLAIN: passwords of users who have no others, PlainLoginModule required user_NAME="..."; read, never run.',
        kind=SettingKind.PASSWORD,
    )
    sasl_server_max_receive_size: int = setting(
        131_072,
        "The largest request of a client that is not authenticated, in bytes. (Kafka: 524288)",
        kind=SettingKind.INT,
        at_least=1024,
        at_most=INT_MAX,
    )
    connection_failed_authentication_delay_ms: int = setting(
        100,
        "How long a failed login is held back; it doubles with each one of an address in a minute, up to 5 s.",
        kind=SettingKind.INT,
        at_least=0,
        at_most=10_000,
    )
    connections_max_reauth_ms: int = setting(
        0, "How long a login holds until the client must repeat it; 0: for ever.", kind=SettingKind.LONG, at_least=0
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        None,
        "OAUTHBEARER: where the keys are that tokens are signed with; https:// or file://.",
        kind=SettingKind.STRING,
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        3_600_000, "Between two fetches of those keys.", kind=SettingKind.LONG, at_least=1000
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        100, "Between the first attempts to fetch them at the start.", kind=SettingKind.LONG, at_least=1
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        10_000, "Between later ones, at most.", kind=SettingKind.LONG, at_least=1
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        None, "OAUTHBEARER: the issuer of tokens, as in their claim iss.", kind=SettingKind.STRING
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        (), "OAUTHBEARER: a token must be for one of these audiences.", kind=SettingKind.LIST
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        "sub", "OAUTHBEARER: the claim that names the user.", kind=SettingKind.STRING
    )
    sasl_oauthbearer_scope_claim_name: str = setting(
        "scope",
        "OAUTHBEARER: the claim with the scopes; a token that has it must have it in good form. Rights are not theirs.",
        kind=SettingKind.STRING,
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        30,
        "OAUTHBEARER: how far the clocks of issuer and broker may differ.",
        kind=SettingKind.INT,
        at_least=0,
        at_most=600,
    )
    sasl_server_callback_handler_class: str | None = setting(
        None,
        "OAUTHBEARER: OAuthBearerValidatorCallbackHandler of Kafka, which Eosin stands in for.",
        kind=SettingKind.STRING,
    )
    sasl_oauthbearer_jwt_validator_class: str | None = setting(
        None,
        "OAUTHBEARER: BrokerJwtValidator or DefaultJwtValidator of Kafka, which Eosin stands in for.",
        kind=SettingKind.STRING,
    )
    eosin_oauthbearer_algorithms: tuple[str, ...] = setting(
        ("RS256", "ES256"),
        "OAUTHBEARER: what tokens may be signed by.",
        kind=SettingKind.LIST,
        choices=("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
    )
    eosin_oauthbearer_allow_any_audience: bool = setting(
        False, "OAUTHBEARER: do without an expected issuer and audience.", kind=SettingKind.BOOLEAN
    )
    eosin_sasl_close_on_delete: bool = setting(
        True, "Close the connections of a user who is deleted. (Kafka leaves them)", kind=SettingKind.BOOLEAN
    )
    eosin_allow_cleartext_passwords: bool = setting(
        False,
        "Take passwords from other machines over connections without TLS: PLAIN, and AlterUserScramCredentials.",
        kind=SettingKind.BOOLEAN,
    )


_OF_TOKENS: Final = frozenset(
    {
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.server.callback.handler.class",
        "sasl.oauthbearer.jwt.validator.class",
        "eosin.oauthbearer.algorithms",
        "eosin.oauthbearer.allow.any.audience",
    }
)
SASL_PER_LISTENER: Final = _OF_TOKENS | {
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.server.max.receive.size",
    "connections.max.reauth.ms",
}
"""Keys that a listener may have for itself."""

TRUST_STORE_OF_KEYS: Final = (
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
"""With the mechanism in front, `listener.name.NAME.oauthbearer.ssl.truststore.location`: whom to trust when the keys of
tokens are fetched."""

PER_MECHANISM: Final = _OF_TOKENS | {"sasl.jaas.config", "connections.max.reauth.ms", *TRUST_STORE_OF_KEYS}
"""The keys that a mechanism on it may have for itself: `listener.name.NAME.plain.sasl.jaas.config`."""

_MECHANISMS: Final = ("plain.", "scram-sha-256.", "scram-sha-512.", "oauthbearer.")


def without_mechanism(key: str) -> str:
    """A listener's key without the mechanism in front of it."""
    for mechanism in _MECHANISMS:
        if key.startswith(mechanism) and key.removeprefix(mechanism) in PER_MECHANISM:
            return key.removeprefix(mechanism)
    return key
