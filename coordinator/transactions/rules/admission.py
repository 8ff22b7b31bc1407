"""What InitProducerId may ask for, whatever is remembered of the id (transactions.md 3.1, steps 2 to 6). Pure."""

from eosin.coordinator.transactions.config import TransactionConfig
from eosin.coordinator.transactions.rules.events import InitProducerId
from eosin.coordinator.transactions.rules.state import NO_EPOCH, NO_PRODUCER_ID, NO_TIMEOUT_MS
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch


def admit(
    config: TransactionConfig,
    transactional_id: str | None,
    pair: ProducerIdAndEpoch,
    timeout_ms: int,
    can_return: bool,
    *,
    two_phase: bool,
    keeps: bool,
) -> InitProducerId | ErrorCode:
    """The request to decide, or why there is none. An empty id is looked at where ids are looked up."""
    if (pair.producer_id == NO_PRODUCER_ID) != (pair.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if transactional_id:
        if not config.transaction_two_phase_commit_enable and (two_phase or keeps):
            # What Apache Kafka answers, the first also where an id may not take part. What no release of it does yet,
            # it refuses like a version that it does not have.
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if two_phase else ErrorCode.UNSUPPORTED_VERSION
        if not two_phase and not 0 < timeout_ms <= config.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return InitProducerId(
        NO_TIMEOUT_MS if two_phase else timeout_ms,
        config.transaction_version,
        pair.producer_id,
        pair.producer_epoch,
        can_return,
        keeps,
    )
