"""RemoveRaftVoter (key 81), version 0: a controller is no voter any more (KIP-853).

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, Uuid, message, string


class RemoveRaftVoterRequest(Message):
    cluster_id: str | None = None
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID


class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


def remove_raft_voter_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        RemoveRaftVoterRequest,
        flexible,
        "cluster_id" / string(flexible, nullable=True),
        "voter_id" / Int32,
        "voter_directory_id" / Uuid,
    )


def remove_raft_voter_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    return message(
        RemoveRaftVoterResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )


SCHEMA = ApiSchema(
    key=ApiKey.REMOVE_RAFT_VOTER,
    versions=range(0, 1),
    flexible_from=0,
    request=remove_raft_voter_request,
    response=remove_raft_voter_response,
)
