"""AddRaftVoter (key 80), versions 0-1: a controller becomes a voter (KIP-853).

Flexible from the start. v1 adds ack_when_committed.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Uint16, Uuid


class Listener(Message):
    name: str = ""
    host: str = ""
    port: Uint16 = 0


class AddRaftVoterRequest(Message):
    cluster_id: str | None = None
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: tuple[Listener, ...] = ()
    ack_when_committed: Annotated[bool, "1+"] = True


class AddRaftVoterResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


SCHEMA = ApiSchema(
    key=ApiKey.ADD_RAFT_VOTER,
    versions=range(0, 2),
    flexible_from=0,
    request=AddRaftVoterRequest,
    response=AddRaftVoterResponse,
)
