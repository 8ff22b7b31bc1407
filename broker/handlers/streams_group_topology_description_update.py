"""StreamsGroupTopologyDescriptionUpdate (key 93), version 0: what a streams group computes, for people (KIP-1331).

Announced and refused: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from eosin.security.access import open_to_all


def respond(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, services: Services
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    text = services.unserved_groups.refused(GroupProtocol.STREAMS, request.group_id, context)
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)


def refuse(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, error: ErrorCode
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error)


API = Api(
    key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    versions=range(0, 1),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
