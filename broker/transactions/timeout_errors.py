"""What to tell a producer that was refused, when the reason is that its transaction timed out (transactions.md 12.3).

Handlers ask here on their error paths only. The tables are in `eosin.coordinator.transactions.rules.timeout_errors`;
this module brings together what they need: the client's name, what the coordinator knows of its pair, and the settings.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from eosin.broker.config.settings import SettingError
from eosin.coordinator.transactions.rules.timeout_errors import Profile, RequestKind, Standing, answer, profile_of
from eosin.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eosin.broker.api import RequestContext, Services

_VERDICTS: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Refusals that may mean a pair of the past."""


def timeout_error_for(
    asked: RequestKind,
    error: ErrorCode,
    context: "RequestContext",
    services: "Services",
    *,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
) -> ErrorCode:
    """`error`, or what the table has instead of it for a request that is stale by timeout."""
    if error not in _VERDICTS or not services.config.recovers_from_timeouts:
        return error
    transactions = services.transactions
    standing = transactions.classify(transactional_id, producer_id=producer_id, producer_epoch=producer_epoch)
    if standing is not Standing.TIMED_OUT:
        return error
    profile = profiles(services.config.transaction_timeout_recovery_profiles).get(context.client_software_name)
    if profile is None:
        profile = profile_of(
            context.client_software_name,
            context.client_software_version,
            client_id=context.client_id,
            can_return=transactions.can_return(transactional_id),
        )
    return answer(asked, context.api_version, profile)


@lru_cache(maxsize=16)
def profiles(texts: Sequence[str]) -> Mapping[str, Profile]:
    """The setting `transaction.timeout.recovery.profiles`, read. Raises SettingError."""
    read = {}
    for text in texts:
        software, colon, name = text.rpartition(":")
        if not colon or not software or name not in {profile.value for profile in Profile}:
            known = ", ".join(profile.value for profile in Profile)
            raise SettingError(
                f"transaction.timeout.recovery.profiles: {text!r} is not NAME:PROFILE with one of {known}"
            )
        read[software] = Profile(name)
    return MappingProxyType(read)
