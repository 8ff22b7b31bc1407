"""StreamsGroupHeartbeat: what is refused before it is looked at (streams-groups.md 3.3)."""

from eosin.broker.requests.streams_heartbeat_request import MOST_SUBTOPOLOGIES, size_problem
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology


def heartbeat(subtopologies: int | None) -> StreamsGroupHeartbeatRequest:
    topology = None
    if subtopologies is not None:
        topology = Topology(0, tuple(Subtopology(str(each), ("words",)) for each in range(subtopologies)))
    return StreamsGroupHeartbeatRequest("counters", "m", 0, topology=topology)


def test_a_topology_of_too_many_parts_is_refused_by_their_number() -> None:
    assert size_problem(heartbeat(None)) is None
    assert size_problem(heartbeat(MOST_SUBTOPOLOGIES)) is None
    assert size_problem(heartbeat(MOST_SUBTOPOLOGIES + 1)) == (
        "The topology has 1001 subtopologies, and 1000 are the most."
    )
