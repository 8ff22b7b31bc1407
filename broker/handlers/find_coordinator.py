"""FindCoordinator (key 10), versions 0-6: which broker coordinates a group or a transactional id.

v0 only knows groups. v1 adds the key's type, an error message and the throttle time. v3 is the first flexible version.
v4 asks for many keys, each with its own answer, in the order asked. v5 knows TRANSACTION_ABORTABLE, which is never
sent. v6 knows the states of share groups, by `group:topic id:partition`: brokers ask for them, and need the right to
act for the cluster, whatever the level of `share.version` is.

The coordinator of a key leads the key's partition of an internal topic. The address is that of the listener the request
came in on. The answer may be out of date when it arrives: NOT_COORDINATOR is the real test.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.coordinator.share_state.coordinator_keys import share_partition_of
from eosin.coordinator.share_state.partitions import state_partition
from eosin.model.cluster import Endpoint
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, weight_of, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.schemas.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_each

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

FIRST_MANY_KEYS: Final = 4
FIRST_SHARE: Final = 6
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"


async def handle(request: FindCoordinatorRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    if context.api_version >= FIRST_MANY_KEYS:
        keys = request.coordinator_keys
        found = (_coordinator(key, _found(key, request.key_type, context, services), request.key_type) for key in keys)
        return await written(
            ApiKey.FIND_COORDINATOR,
            FindCoordinatorResponse(coordinators=tuple(await made_for_each(found, weight_of(keys), context, services))),
            len(keys),
            context,
        )
    found_one = _found(request.key, request.key_type, context, services)
    return _single(_coordinator(request.key, found_one, request.key_type))


def _found(key: str, key_type: int, context: RequestContext, services: Services) -> Endpoint | ErrorCode:
    if key_type == GROUP:
        if not context.session.may(Operation.DESCRIBE, ResourceType.GROUP, key):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, services.groups.partition_for(key))
    elif key_type == TRANSACTION:
        if not context.session.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        partition = TopicPartition(TRANSACTION_STATE_TOPIC, services.transactions.partition_for(key))
    elif key_type == SHARE and context.api_version >= FIRST_SHARE:
        if not context.session.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        share_partition = share_partition_of(key)
        if share_partition is None:
            return ErrorCode.INVALID_REQUEST
        topic = services.cluster.topics.get(SHARE_GROUP_STATE_TOPIC)
        number = 0 if topic is None else state_partition(share_partition, topic.partitions)
        partition = TopicPartition(SHARE_GROUP_STATE_TOPIC, number)
    else:
        return ErrorCode.INVALID_REQUEST
    leader = services.cluster.leader_of(partition)
    if leader is None:
        services.cluster.want_internal_topic(partition.topic)
    if leader == services.cluster.node_id:
        return services.cluster.endpoint(context.listener)
    for broker in services.cluster.brokers(context.listener):
        if broker.node_id == leader:
            return broker
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def _coordinator(key: str, found: Endpoint | ErrorCode, key_type: int) -> Coordinator:
    if isinstance(found, ErrorCode):
        text = _MALFORMED if (key_type, found) == (SHARE, ErrorCode.INVALID_REQUEST) else _MESSAGES.get(found)
        return Coordinator(key, node_id=-1, host="", port=-1, error_code=found, error_message=text)
    return Coordinator(key, node_id=found.node_id, host=found.host, port=found.port)


_MALFORMED: Final = "States of share groups have a coordinator by group:topic id:partition, from v6"
_MESSAGES: Final = {
    ErrorCode.INVALID_REQUEST: "Only groups (0) and transactional ids (1) have a coordinator here",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator has no leader at the moment",
}


def _single(found: Coordinator) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def refuse(request: FindCoordinatorRequest, context: RequestContext, error: ErrorCode) -> FindCoordinatorResponse:
    if context.api_version >= FIRST_MANY_KEYS:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(coordinators=tuple(_coordinator(key, error, request.key_type) for key in keys))
    return _single(_coordinator(request.key, error, request.key_type))


API = Api(
    key=ApiKey.FIND_COORDINATOR,
    versions=range(0, 7),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            on_each(Operation.DESCRIBE, ResourceType.GROUP, "of a group"),
            on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "of a transactional id"),
            on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "of a state of a share group"),
        )
    ),
)
