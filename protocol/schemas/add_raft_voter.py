"""AddRaftVoter (key 80), versions 0-1: a controller becomes a voter (KIP-853).

Flexible from the start. v1 adds ack_when_committed.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int16,
    Int32,
    Layout,
    Message,
    Uint16,
    Uuid,
    array,
    message,
    string,
    when,
)


class Listener(Message):
    name: str = ""
    host: str = ""
    port: int = 0


class AddRaftVoterRequest(Message):
    cluster_id: str | None = None
    timeout_ms: int = 0
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID
    listeners: tuple[Listener, ...] = ()
    ack_when_committed: bool = True


class AddRaftVoterResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


def add_raft_voter_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    listener = message(
        Listener,
        flexible,
        "name" / string(flexible),
        "host" / string(flexible),
        "port" / Uint16,
    )
    return message(
        AddRaftVoterRequest,
        flexible,
        "cluster_id" / string(flexible, nullable=True),
        "timeout_ms" / Int32,
        "voter_id" / Int32,
        "voter_directory_id" / Uuid,
        "listeners" / array(listener, flexible),
        *when(version >= 1, "ack_when_committed" / Boolean),
    )


def add_raft_voter_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    return message(
        AddRaftVoterResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ADD_RAFT_VOTER,
    versions=range(0, 2),
    flexible_from=0,
    request=add_raft_voter_request,
    response=add_raft_voter_response,
)
