"""`Tokens`: what the listeners with OAUTHBEARER share: keys, rules, and whoever reads tokens by them.

Imported by a broker that has such a listener, and by no other: PyJWT comes with it.
"""

from functools import partial
from typing import Any, Final

from eosin.runtime.clock import Clock
from eosin.runtime.key_files import StoreError
from eosin.security.sasl.bearer_tokens import BearerExchange, TokenReader, TokenRules
from eosin.security.sasl.key_set import KeySet, fetched
from eosin.security.sasl.settings import of_tokens
from eosin.security.tls.contexts import ClientContext, client_context
from eosin.security.tls.settings import TrustStoreSettings
from eosin.settings.broker import BrokerConfig
from eosin.settings.sasl import TRUST_STORE_OF_KEYS
from eosin.settings.security import prefixed
from eosin.settings.start_error import StartError


class Tokens:
    """The tokens of one broker."""

    def __init__(self, reader: TokenReader, keys: KeySet, clock: Clock) -> None:
        self._reader: Final = reader
        self._keys: Final = keys
        self._clock: Final = clock

    def exchange(self) -> BearerExchange:
        """A new exchange."""
        return BearerExchange(self._reader, self._clock)

    def close(self) -> None:
        """Fetch no more keys."""
        self._keys.close()


async def open_tokens(config: BrokerConfig, clock: Clock, listener: str) -> Tokens:
    """The tokens of one listener, with the keys of its issuer fetched. Raises `StartError`."""
    get = partial(of_tokens, config, listener)
    url = get("sasl.oauthbearer.jwks.endpoint.url")
    assert url is not None, "checked with the settings"
    trusted = _trusted(config, listener)
    keys = KeySet(
        url,
        clock,
        refresh_ms=get("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        fetch=partial(fetched, url, trusted),
    )
    await keys.load(
        backoff_ms=get("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        backoff_max_ms=get("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )
    rules = TokenRules(
        algorithms=frozenset(get("eosin.oauthbearer.algorithms")),
        issuer=get("sasl.oauthbearer.expected.issuer"),
        audience=frozenset(get("sasl.oauthbearer.expected.audience")),
        name_claim=get("sasl.oauthbearer.sub.claim.name"),
        scope_claim=get("sasl.oauthbearer.scope.claim.name"),
        skew_s=get("sasl.oauthbearer.clock.skew.seconds"),
    )
    return Tokens(TokenReader(rules, keys, clock), keys, clock)


def _trusted(config: BrokerConfig, listener: str) -> ClientContext | None:
    """The authorities trusted when keys are fetched; None for the system's authorities. Raises `StartError`."""
    type_, location, password, certificates = (_own(config, key, listener) for key in TRUST_STORE_OF_KEYS)
    if location is None and certificates is None:
        return None
    store = TrustStoreSettings(type=type_, location=location, password=password, certificates=certificates)
    try:
        return client_context(store)
    except StoreError as refused:
        raise StartError(f"the keys of tokens cannot be fetched: {refused}") from None


def _own(config: BrokerConfig, key: str, listener: str) -> Any:
    """Only what is written for the mechanism: what clients' certificates must lead to is another matter."""
    return config.overrides.get(prefixed(key, listener, "oauthbearer"))
