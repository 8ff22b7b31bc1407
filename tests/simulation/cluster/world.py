"""What clients of a cluster share: several machines, of which each client has to find the right one, as their libraries
do, by Metadata and FindCoordinator."""

from collections.abc import Sequence

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest
from eosin.protocol.schemas.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest
from eosin.protocol.schemas.leave_group import LeaveGroupRequest
from eosin.protocol.schemas.list_offsets import ListOffsetsRequest
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.offset_commit import OffsetCommitRequest
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest
from eosin.protocol.schemas.produce import ProduceRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from eosin.protocol.schemas.sync_group import SyncGroupRequest
from eosin.protocol.schemas.txn_offset_commit import TxnOffsetCommitRequest
from eosin.protocol.types import Message
from simulation.client import Coordinated, Session, World, open_transactions_of
from simulation.clock import SimulatedClock
from simulation.cluster.machines import ClusterMachine
from simulation.history import History
from simulation.loop import Process
from simulation.network import ConnectionLost

LANE = "metadata"
GROUP, TRANSACTIONAL_ID = 0, 1
OF_TRANSACTIONS = (InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest)
OF_GROUPS = (
    TxnOffsetCommitRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ConsumerGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
    ShareGroupHeartbeatRequest,
    AlterShareGroupOffsetsRequest,
)


class ClusterWorld(World):
    """`World` of several machines."""

    retries_in_order = True
    is_formatted = True

    def __init__(
        self,
        *,
        machines: Sequence[ClusterMachine],
        network: Process,
        history: History,
        seed: str,
        clock: SimulatedClock,
    ) -> None:
        """`clock` is that of people: no machine's."""
        super().__init__(machine=machines[0], network=network, history=history, seed=seed)
        self.machines = {machine.node_id: machine for machine in machines}
        self._clock = clock

    @property
    def now_ms(self) -> int:
        return self._clock.now_ms()

    def machine_for(self, session: Session, request: Message) -> ClusterMachine:
        """The one that the client takes for the right one; any one if it does not know."""
        if session.only_broker is not None:
            return self.machines[session.only_broker]
        node_id = None
        partition = _partition_of(request)
        if partition is not None:
            node_id = session.leaders.get(partition)
            if isinstance(request, FetchRequest):
                node_id = session.nearest.get(partition, node_id)
        elif (coordinated := _coordinated(request)) is not None:
            node_id = session.coordinators.setdefault(coordinated, -1)
        return self.machines.get(-1 if node_id is None else node_id) or self._any(session)

    def _any(self, session: Session) -> ClusterMachine:
        """The one that the client asks until that one is of no use."""
        if session.any_broker not in self.machines:
            session.any_broker = session.chance.choice(list(self.machines))
        return self.machines[session.any_broker]

    async def look_again(self, session: Session) -> None:
        """Ask any broker who leads what, and who coordinates what the client has to do with."""
        session.any_broker = -1
        try:
            found = await session.send(ApiKey.METADATA, 9, MetadataRequest(topics=None), lane=LANE)
            for topic in found.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    if session.heeds_epochs and each.leader_epoch < session.leader_epochs.get(partition, -1):
                        continue
                    session.leaders[partition] = each.leader_id
                    session.leader_epochs[partition] = each.leader_epoch
            for coordinated in list(session.coordinators):
                request = FindCoordinatorRequest(coordinated.key, coordinated.key_type)
                answer = await session.send(ApiKey.FIND_COORDINATOR, 3, request, lane=LANE)
                session.coordinators[coordinated] = -1 if answer.error_code else answer.node_id
        except ConnectionLost:
            pass  # it asks another one after the next failure

    def is_excused(self, error: ErrorCode) -> bool:
        """A leader that is cut off has not what a reader has had from its successor, or from a follower of that. Who
        heeds leader epochs is told so (`near_readers.py`)."""
        return error is ErrorCode.OFFSET_OUT_OF_RANGE and self.history.may_be_stale

    async def open_transactions(self) -> tuple[str, ...]:
        listed: list[str] = []
        for machine in self.machines.values():
            listed += await open_transactions_of(machine)
        return tuple(listed)


def _partition_of(request: Message) -> TopicPartition | None:
    """The partition whose leader is asked: the first one, where a request names several."""
    if isinstance(request, ProduceRequest):
        topic = request.topic_data[0]
        return TopicPartition(topic.name, topic.partition_data[0].index)
    if isinstance(request, FetchRequest):
        return TopicPartition(request.topics[0].topic, request.topics[0].partitions[0].partition)
    if isinstance(request, ListOffsetsRequest):
        return TopicPartition(request.topics[0].name, request.topics[0].partitions[0].partition_index)
    return None


def _coordinated(request: Message) -> Coordinated | None:
    if isinstance(request, AddPartitionsToTxnRequest):
        return Coordinated(TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    if isinstance(request, OF_TRANSACTIONS):
        return None if request.transactional_id is None else Coordinated(TRANSACTIONAL_ID, request.transactional_id)
    if isinstance(request, OF_GROUPS):
        return Coordinated(GROUP, request.group_id)
    if isinstance(request, DescribeShareGroupOffsetsRequest):
        return Coordinated(GROUP, request.groups[0].group_id)
    return None
