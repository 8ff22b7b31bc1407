"""AddOffsetsToTxn (key 25), versions 0-4: a group's committed offsets are going to be part of the transaction.

What joins the transaction is the partition of `__consumer_offsets` that the group belongs to, as if AddPartitionsToTxn
had named it; that may begin the transaction. v2 knows PRODUCER_FENCED; below it is INVALID_PRODUCER_EPOCH (KIP-588).
v3 is the first flexible version. v4 knows TRANSACTION_ABORTABLE. Clients of KIP-890 leave this request out.
"""

from eosin.broker.requests.timeout_errors import error_sent
from eosin.broker.services import Services
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from eosin.security.access import Access, on_the_group, on_the_transactional_id


async def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext, services: Services
) -> AddOffsetsToTxnResponse:
    partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, services.groups.partition_for(request.group_id))
    if services.cluster.leader_of(partition) is None:
        # A partition that this broker does not know counts as deleted when the transaction ends, and gets no marker.
        services.cluster.want_internal_topic(CONSUMER_OFFSETS_TOPIC)
        return refuse(request, context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    reply = await services.transactions.add_partitions(
        request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        partitions=(partition,),
        who=context,
    )
    error = reply.error
    if error is not ErrorCode.NONE:
        error = error_sent(ApiKey.ADD_OFFSETS_TO_TXN, reply, context, services.config)
    return AddOffsetsToTxnResponse(error_code=error)


def refuse(request: AddOffsetsToTxnRequest, context: RequestContext, error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error)


API = Api(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    versions=range(0, 5),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_transactional_id(Operation.WRITE), on_the_group(Operation.READ))),
)
