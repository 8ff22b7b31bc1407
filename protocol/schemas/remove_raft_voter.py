"""RemoveRaftVoter (key 81), version 0: a controller is no voter any more (KIP-853).

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Uuid


class RemoveRaftVoterRequest(Message):
    cluster_id: str | None = None
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


class RemoveRaftVoterResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


SCHEMA = ApiSchema(
    key=ApiKey.REMOVE_RAFT_VOTER,
    versions=range(0, 1),
    flexible_from=0,
    request=RemoveRaftVoterRequest,
    response=RemoveRaftVoterResponse,
)
