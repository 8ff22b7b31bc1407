"""The error for a producer that is refused because its transaction timed out (transactions.md 12.3).

Handlers call this on their error paths only. The tables are in `eosin.coordinator.transactions.rules.timeout_errors`;
this module looks up the client's row: by the connection's client name, the coordinator's reply and the settings. The
transaction coordinator's own replies say whether a pair timed out; for a refusal by a log or a group, ask
`TransactionCoordinator.refusal` first.
"""

from typing import TYPE_CHECKING, Final, cast

from eosin.coordinator.transactions.rules.timeout_errors import (
    KNOWS_PRODUCER_FENCED,
    RequestKind,
    error_for,
    profile_of,
    wire_error,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.settings.timeout_profiles import profiles

if TYPE_CHECKING:
    from eosin.coordinator.ports import Requester
    from eosin.coordinator.transactions.rules.effects import TransactionReply
    from eosin.network.api import RequestContext
    from eosin.settings.broker import BrokerConfig

_PAIR_ERRORS: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Errors that may mean that the producer's pair is out of date."""


_KINDS: Final = {
    ApiKey.PRODUCE: RequestKind.PRODUCE,
    ApiKey.ADD_PARTITIONS_TO_TXN: RequestKind.ADD_PARTITIONS,
    ApiKey.ADD_OFFSETS_TO_TXN: RequestKind.ADD_OFFSETS,
    ApiKey.TXN_OFFSET_COMMIT: RequestKind.COMMIT_OFFSETS,
    ApiKey.END_TXN: RequestKind.COMMIT,
}


def error_sent(
    api: ApiKey, refused: "TransactionReply", context: "RequestContext", config: "BrokerConfig", *, commits: bool = True
) -> ErrorCode:
    """The error of a refusal as this client is sent it, in a request of `api`; `commits` is false for an EndTxn that
    aborts."""
    error, kind = refused.error, _KINDS.get(api)
    if kind is not None and commits:
        error = timeout_error_for(kind, refused, context, config)
    return wire_error(api, context.api_version, error) if api in KNOWS_PRODUCER_FENCED else error


def error_sent_to(
    api: ApiKey, refused: "TransactionReply", who: "Requester", config: "BrokerConfig", *, commits: bool
) -> ErrorCode:
    """The same for whoever sees the refusal before its handler does. The handlers of other APIs than `api` refuse in
    words of their own, and tell so themselves."""
    asked = getattr(who, "api_key", -1)
    if asked == api or (asked == ApiKey.ADD_OFFSETS_TO_TXN and api is ApiKey.ADD_PARTITIONS_TO_TXN):
        return error_sent(ApiKey(asked), refused, cast("RequestContext", who), config, commits=commits)
    return refused.error


def timeout_error_for(
    kind: RequestKind, refused: "TransactionReply", context: "RequestContext", config: "BrokerConfig"
) -> ErrorCode:
    """The error of `refused`, or the table's error for this client when the producer's transaction timed out."""
    if not refused.timed_out or refused.error not in _PAIR_ERRORS or not config.recovers_from_timeouts:
        return refused.error
    profile = profiles(config.transaction_timeout_recovery_profiles).get(context.client_software_name)
    if profile is None:
        profile = profile_of(
            context.client_software_name,
            context.client_software_version,
            client_id=context.client_id,
            can_return=refused.can_return,
        )
    return error_for(kind, context.api_version, profile)
