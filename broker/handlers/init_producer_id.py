"""InitProducerId (key 22), versions 0-6: a producer id and an epoch, which fences older instances of the id.

v2 is the first flexible version. From v3 on a producer that has a pair may send it, to get a new epoch without being
taken for a new instance (KIP-360). v4 knows PRODUCER_FENCED; below it is INVALID_PRODUCER_EPOCH (KIP-588). v5 knows
TRANSACTION_ABORTABLE, which is not needed here. v6 (KIP-939) can ask that the producer's transactions never time out
(enable_2pc), and that one which is open is left so, for this instance to end (keep_prepared_txn); then the answer has
the pair under which it was begun. v6 is announced only where `transaction.two.phase.commit.enable` is on, for it is not
stable in Apache Kafka; elsewhere enable_2pc is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as it is there, and
keep_prepared_txn alone UNSUPPORTED_VERSION.

The answer is held while an open transaction of the id is being aborted, for at most
`eosin.concurrent.transactions.wait.ms`; then it is CONCURRENT_TRANSACTIONS and the client comes back. A new
transactional id beyond what the broker or its user may have is POLICY_VIOLATION (`broker/security/new_producers.py`).
"""

import logging
from typing import TYPE_CHECKING, Final

from eosin.broker.requests.timeout_errors import error_sent
from eosin.broker.services import Services
from eosin.coordinator.transactions.rules.state import NO_EPOCH, NO_PRODUCER_ID
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.security.access import Access, Right, or_the_next

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

_LOG: Final = logging.getLogger(__name__)

FIRST_WITH_PAIR: Final = 3
FIRST_WITH_TWO_PHASE_COMMIT: Final = 6
NO_PAIR: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)


async def handle(request: InitProducerIdRequest, context: RequestContext, services: Services) -> InitProducerIdResponse:
    limits, transactional_id = services.new_producers, request.transactional_id
    if transactional_id is not None and services.transactions.would_add(transactional_id):
        refused = limits.refusal_of_id(context, known=services.transactions.ids)
        if refused is not ErrorCode.NONE:
            return refuse(request, context, refused)
    result = await services.transactions.init_producer_id(
        request.transactional_id,
        timeout_ms=request.transaction_timeout_ms,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        can_return=context.api_version >= FIRST_WITH_PAIR,
        two_phase=request.enable_2pc,
        keeps=request.keep_prepared_txn,
        who=context,
    )
    if result.error is ErrorCode.INVALID_REQUEST:
        # librdkafka asks again for ever, without a message (transactions.md 11.11).
        _LOG.warning("a malformed InitProducerId from %s, client id %s", context.client_host, context.client_id)
    error = result.error
    if error is not ErrorCode.NONE:
        error = error_sent(ApiKey.INIT_PRODUCER_ID, result, context, services.config)
    ongoing_id, ongoing_epoch = result.ongoing or NO_PAIR
    return InitProducerIdResponse(
        error_code=error,
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
        ongoing_txn_producer_id=ongoing_id,
        ongoing_txn_producer_epoch=ongoing_epoch,
    )


def _check(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode:
    """A user that may write anywhere may write idempotently (KIP-679)."""
    session, transactional_id = context.session, request.transactional_id
    if transactional_id is None:
        if session.may(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
            return ErrorCode.NONE
        may_write = session.may_any(Operation.WRITE, ResourceType.TOPIC)
        return ErrorCode.NONE if may_write else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    operations = [Operation.WRITE] + [Operation.TWO_PHASE_COMMIT] * request.enable_2pc
    if all(session.may(each, ResourceType.TRANSACTIONAL_ID, transactional_id) for each in operations):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def refuse(request: InitProducerIdRequest, context: RequestContext, error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def _announced_to(config: "BrokerConfig") -> int:
    return FIRST_WITH_TWO_PHASE_COMMIT - (not config.transaction_two_phase_commit_enable)


API = Api(
    key=ApiKey.INIT_PRODUCER_ID,
    versions=range(0, 7),
    handle=handle,
    refuse=refuse,
    announced_to=_announced_to,
    access=Access(
        (
            Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, note="with a transactional id"),
            Right(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, note="with enable_2pc, too"),
            or_the_next(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "without a transactional id"),
            Right(
                Operation.WRITE,
                ResourceType.TOPIC,
                note="without a transactional id: any topic",
                denied=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ),
        ),
        check=_check,
    ),
)
