"""The error for a producer that is refused because its transaction timed out (transactions.md 12.3).

Handlers call this on their error paths only. The tables are in `eosin.coordinator.transactions.rules.timeout_errors`;
this module looks up the client's row: by the connection's client name, the coordinator's reply and the settings. The
transaction coordinator's own replies say whether a pair timed out; for a refusal by a log or a group, ask
`TransactionCoordinator.refusal` first.
"""

from typing import TYPE_CHECKING, Final

from eosin.coordinator.transactions.rules.timeout_errors import RequestKind, error_for, profile_of
from eosin.protocol.errors import ErrorCode
from eosin.settings.timeout_profiles import profiles

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.coordinator.transactions.rules.effects import TransactionReply
    from eosin.network.api import RequestContext

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


def timeout_error_for(
    kind: RequestKind, refused: "TransactionReply", context: "RequestContext", services: "Services"
) -> ErrorCode:
    """The error of `refused`, or the table's error for this client when the producer's transaction timed out."""
    if not refused.timed_out or refused.error not in _PAIR_ERRORS or not services.config.recovers_from_timeouts:
        return refused.error
    profile = profiles(services.config.transaction_timeout_recovery_profiles).get(context.client_software_name)
    if profile is None:
        profile = profile_of(
            context.client_software_name,
            context.client_software_version,
            client_id=context.client_id,
            can_return=refused.can_return,
        )
    return error_for(kind, context.api_version, profile)
