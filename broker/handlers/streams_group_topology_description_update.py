"""StreamsGroupTopologyDescriptionUpdate (key 93), version 0: what a streams group computes, for people (KIP-1331).

A member sends it when a heartbeat has asked for it, and StreamsGroupDescribe tells it (streams-groups.md 9.1). With
`eosin.topology.description.max.bytes` 0 it is 35, as of Apache Kafka without a plugin, and so it is while
`streams.version` is at level 0 (`eosin.broker.unserved_groups`).
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import chain
from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.coordinator.groups.streams.rules.events import StreamsResult, TopologyDescribed
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.internal import encode_value
from eosin.protocol.schemas.streams_group_describe import TopologyDescription
from eosin.protocol.schemas.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from eosin.security.access import Access, on_the_group

_ACCESS: Final = Access((on_the_group(Operation.READ),), is_asked_late=True)
NOT_KEPT: Final = "This broker keeps no descriptions of topologies: eosin.topology.description.max.bytes is 0."


class NodeType(IntEnum):
    """The kinds of nodes in a topology."""

    SOURCE = 1
    PROCESSOR = 2
    SINK = 3


async def handle(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, services: Services
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    if text := services.unserved_groups.refused(GroupProtocol.STREAMS, request.group_id, context):
        return StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text
        )
    if denied := _ACCESS.denial(request, context):
        return refuse(request, context, denied)
    found = await _kept(request, context, services)
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=found.error, error_message=found.message)


async def _kept(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, services: Services
) -> StreamsResult:
    groups = services.groups.streams
    if not groups.config_of(request.group_id).eosin_topology_description_max_bytes:
        return StreamsResult(ErrorCode.UNSUPPORTED_VERSION, NOT_KEPT)
    problem = next(_problems(request), None)
    if problem is not None:
        return StreamsResult(ErrorCode.INVALID_REQUEST, problem)
    data = encode_value(request.topology_description, 0)
    shares = services.group_shares
    if shares is not None and not await shares.may_bring(context, request.group_id, len(data)):
        text = "The user's groups hold as much as they may (eosin.principal.group.bytes.max)."
        return StreamsResult(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, text)
    return await groups.describe_topology(
        request.group_id, TopologyDescribed(request.member_id, request.topology_epoch, data)
    )


def _problems(request: StreamsGroupTopologyDescriptionUpdateRequest) -> Iterator[str]:
    if not request.member_id.strip():
        yield "MemberId can't be empty."
    if not request.group_id.strip():
        yield "GroupId can't be empty."
    yield from _problems_of(request.topology_description)


def _problems_of(description: TopologyDescription) -> Iterator[str]:
    stores = description.global_stores
    nodes = (node for each in description.subtopologies for node in each.nodes)
    for node in chain(nodes, (node for each in stores for node in (each.source, each.processor))):
        if not NodeType.SOURCE <= node.node_type <= NodeType.SINK:
            yield f"There are no nodes of type {node.node_type} in a topology."
    for each in stores:
        if (each.source.node_type, each.processor.node_type) != (NodeType.SOURCE, NodeType.PROCESSOR):
            yield "A global store has a source and a processor."


def refuse(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, error: ErrorCode
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error)


API = Api(
    key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=_ACCESS,
)
