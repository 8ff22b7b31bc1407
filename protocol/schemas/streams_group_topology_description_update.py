"""StreamsGroupTopologyDescriptionUpdate (key 93), version 0: what a streams group computes, for people (KIP-1331).

Flexible from the start.
"""

from __future__ import annotations

from typing import Final

from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.streams_group_describe import TopologyDescription
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, RecordSchema


class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    group_id: str = ""
    member_id: str = ""
    topology_epoch: Int32 = 0
    topology_description: TopologyDescription = TopologyDescription()


class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


SCHEMA = ApiSchema(
    key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    versions=range(0, 1),
    flexible_from=0,
    request=StreamsGroupTopologyDescriptionUpdateRequest,
    response=StreamsGroupTopologyDescriptionUpdateResponse,
)

TOPOLOGY_DESCRIPTION: Final = RecordSchema(TopologyDescription, versions=range(0, 1), flexible_from=0)
"""A description by itself, as it is kept."""
