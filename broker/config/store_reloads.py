"""The reload of key stores and trust stores by AlterConfigs, as Kafka's tools ask for it (security.md 2.5.1, 6.5.3).

A client sets `listener.name.NAME.ssl.keystore.location`, or that of the trust store, to the value that it has. Another
value is refused: which files a broker reads is said by its operator alone, and never over the wire.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.model.cluster import ConfigChange, ConfigOperation, Outcome
from eosin.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

_STORE: Final = re.compile(r"listener\.name\.(.+)\.(ssl\.(?:keystore|truststore)\.location)")

ReloadStores = Callable[[str], Awaitable[str | None]]
"""Loads the stores of a listener again, by its name; why they cannot be used, and None when they are."""


def is_store(name: str) -> bool:
    """True if a setting is the location of a listener's store."""
    return _STORE.fullmatch(name) is not None


async def reload_stores(
    changes: Sequence[ConfigChange], config: "BrokerConfig", reload: ReloadStores | None, *, validate_only: bool
) -> Outcome:
    """Load again what `changes`, all of them about stores, name. The first that cannot be is the outcome."""
    names: dict[str, None] = {}
    for change in changes:
        found = _STORE.fullmatch(change.name)
        assert found is not None
        listener = next((each.name for each in config.bound_listeners if each.name.lower() == found[1]), None)
        if reload is None or listener is None or not config.protocols[listener].endswith("SSL"):
            return Outcome(ErrorCode.INVALID_REQUEST, f"{change.name}: there is no such listener with TLS")
        if change.operation != ConfigOperation.SET or change.value != config.for_listener(found[2], listener):
            return Outcome(
                ErrorCode.INVALID_REQUEST,
                f"{change.name} may only be set to the value that it has, which loads the file again: set another one"
                " in the configuration file",
            )
        names[listener] = None
    if validate_only or reload is None:
        return Outcome(ErrorCode.NONE)
    for listener in names:
        why = await reload(listener)
        if why is not None:
            return Outcome(ErrorCode.INVALID_REQUEST, f"listener {listener} keeps what it has: {why}")
    return Outcome(ErrorCode.NONE)
