"""A controller without a JVM: what the active controller of Apache Kafka 4.3.1 answers brokers, and what it writes to
the metadata log (cluster.md 2.3 to 2.8, 4.11, 4.18, 5.2, 6.6).

Its state is what its own log says, replayed; beside that it remembers who has shown life when, as a real one does.
It reads no clock and waits for nothing: `answer` gets the time, `tick` lets sessions end. Held against a recording of a
real controller by `tests/cluster/quorum/test_fake_controller.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from controller_elections import Rules, partition_change
from quorum_log import QuorumLog

from eosin.cluster.quorum.rules.image import (
    LOST_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    ClusterImage,
    PartitionRegistration,
    RegisteredBroker,
    TopicImage,
)
from eosin.cluster.quorum.rules.replay import Replay
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, Uuid
from eosin.protocol.schemas import alter_partition, assign_replicas_to_dirs, create_topics, delete_topics, elect_leaders
from eosin.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from eosin.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from eosin.protocol.schemas.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from eosin.protocol.schemas.envelope import EnvelopeRequest, EnvelopeResponse
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_request, decode_request_header, encode_response
from eosin.protocol.wire.headers import SIZE_BYTES

ELR: Final = "eligible.leader.replicas.version"
BLOCK: Final = 1000
"""Producer ids in a block."""
_ONLINE_ANYWHERE: Final = (ZERO_UUID, UNASSIGNED_DIRECTORY)


@dataclass(slots=True)
class Liveness:
    """The active controller's memory of one incarnation, which a new controller does not have."""

    epoch: int
    contact_ms: int | None = None
    """The time of its last heartbeat; None before the first."""
    metadata_offset: int = -1
    controlled_shutdown_offset: int = 0
    should_shut_down: bool = False


@dataclass
class FakeController:
    """The active controller of a quorum whose log is `log`."""

    log: QuorumLog
    features: dict[str, int]
    """Finalized levels, as the quorum was formatted with them."""
    new_id: Callable[[], Uuid]
    """Makes ids of topics."""
    session_timeout_ms: int = 9000
    replay: Replay = field(default_factory=Replay)
    liveness: dict[int, Liveness] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._answers: dict[type[Message], Callable[[Any, int], Message]] = {
            BrokerRegistrationRequest: self.register,
            BrokerHeartbeatRequest: self.heartbeat,
            alter_partition.AlterPartitionRequest: self.alter_isrs,
            AllocateProducerIdsRequest: self.allocate_producer_ids,
            assign_replicas_to_dirs.AssignReplicasToDirsRequest: self.assign,
            elect_leaders.ElectLeadersRequest: self.elect,
            create_topics.CreateTopicsRequest: self.create,
            delete_topics.DeleteTopicsRequest: self.delete,
            EnvelopeRequest: self.open_envelope,
        }
        bootstrap: list[Message] = [
            records.FeatureLevelRecord(name, level) for name, level in self.features.items() if level
        ]
        if self.features.get(ELR):  # so that a default cannot change under the ELR
            bootstrap.append(records.ConfigRecord(ConfigResourceType.BROKER, "", "min.insync.replicas", "1"))
        self.write([records.BeginTransactionRecord("Bootstrap records"), *bootstrap, records.EndTransactionRecord()])

    # The log and what it says

    @property
    def image(self) -> ClusterImage:
        """The cluster now."""
        return self.replay.published

    def write(self, batch: Sequence[Message]) -> None:
        """One batch, committed at once."""
        if not batch:
            return
        first = self.log.end_offset
        self.log.append(*batch)
        for offset, record in enumerate(batch, first):
            self.replay.apply(offset, record)
        self.replay.advance(self.log.end_offset - 1, self.log.epoch)
        self.replay.publish()

    def _is_active(self, node_id: int) -> bool:
        broker = self.image.brokers.get(node_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def _rules(
        self,
        topic: TopicImage,
        partition: PartitionRegistration,
        *,
        removed: int | None = None,
        added: int | None = None,
        directories: tuple[Uuid, ...] | None = None,
    ) -> Rules:
        """The rules by which `partition` elects when broker `removed` goes, or `added` comes, in the same write."""
        configs = self.image.configs
        defaults = configs.get((ConfigResourceType.BROKER, ""), {})
        min_isr = int(
            {**defaults, **configs.get((ConfigResourceType.TOPIC, topic.name), {})}.get("min.insync.replicas", 1)
        )
        places = directories or partition.directories

        def may_lead(replica: int) -> bool:
            if replica == removed or not (replica == added or self._is_active(replica)):
                return False
            broker = self.image.brokers[replica]
            place = places[partition.replicas.index(replica)] if replica in partition.replicas else LOST_DIRECTORY
            return place in _ONLINE_ANYWHERE or place in broker.log_dirs

        return Rules(has_elr=bool(self.image.features.get(ELR)), min_isr=min_isr, may_lead=may_lead)

    def _partitions(self) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        for topic in self.image.topics.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    # Registration (cluster.md 2.3 and 2.4)

    def register(self, request: BrokerRegistrationRequest, now_ms: int) -> BrokerRegistrationResponse:
        """A broker comes, or comes back."""
        if request.cluster_id != self.log.cluster_id:
            return BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        known = self.image.brokers.get(request.broker_id)
        is_same = known is not None and known.incarnation_id == request.incarnation_id
        if known is not None and not is_same and self._has_session(known, now_ms) and not known.in_controlled_shutdown:
            return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        others = [each for each in self.image.brokers.values() if each.node_id != request.broker_id]
        if not request.log_dirs or any(set(each.log_dirs) & set(request.log_dirs) for each in others):
            return BrokerRegistrationResponse(error_code=ErrorCode.INVALID_REGISTRATION)
        epoch = self.log.end_offset
        batch: list[Message] = []
        if known is not None and is_same:
            epoch = known.epoch
        elif known is not None:
            batch += self._removed(known.node_id, unclean=request.previous_broker_epoch != known.epoch)
        elif self.image.features.get(ELR):
            batch += self._removed(request.broker_id, unclean=True)
        batch.append(
            records.RegisterBrokerRecord(
                broker_id=request.broker_id,
                incarnation_id=request.incarnation_id,
                broker_epoch=epoch,
                end_points=tuple(
                    records.BrokerEndpoint(each.name, each.host, each.port, each.security_protocol)
                    for each in request.listeners
                ),
                features=tuple(
                    records.BrokerFeature(each.name, each.min_supported_version, each.max_supported_version)
                    for each in request.features
                ),
                rack=request.rack,
                fenced=known.fenced if known is not None and is_same else True,
                in_controlled_shutdown=known.in_controlled_shutdown if known is not None and is_same else False,
                log_dirs=tuple(sorted(request.log_dirs)),
            )
        )
        self.write(batch)
        if not is_same:
            self.liveness[request.broker_id] = Liveness(epoch)
        return BrokerRegistrationResponse(broker_epoch=epoch)

    def _has_session(self, broker: RegisteredBroker, now_ms: int) -> bool:
        alive = self.liveness.get(broker.node_id)
        if alive is None or alive.epoch != broker.epoch or alive.contact_ms is None:
            return False
        return now_ms - alive.contact_ms < self.session_timeout_ms

    def _removed(self, node_id: int, *, unclean: bool = False) -> Iterator[Message]:
        """The changes when a broker counts no more: it leaves leaderships and ISRs."""
        for topic, index, partition in self._partitions():
            if node_id not in (*partition.isr, *(partition.elr if unclean else ())):
                continue
            change = partition_change(
                topic.topic_id,
                index,
                partition,
                self._rules(topic, partition, removed=node_id),
                isr=[each for each in partition.isr if each != node_id],
                unclean=(node_id,) if unclean else (),
            )
            if change is not None:
                yield change

    # Heartbeats (cluster.md 2.5 and 2.7)

    def heartbeat(self, request: BrokerHeartbeatRequest, now_ms: int) -> BrokerHeartbeatResponse:
        """A broker lives, and may want something."""
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        alive = self.liveness.get(broker.node_id)
        if alive is None or alive.epoch != broker.epoch:
            alive = self.liveness[broker.node_id] = Liveness(broker.epoch)
        if not (broker.fenced and request.want_fence and request.want_shut_down):
            alive.contact_ms = now_ms
        alive.metadata_offset = max(alive.metadata_offset, request.current_metadata_offset)
        is_caught_up = request.current_metadata_offset >= broker.epoch
        batch: list[Message] = []
        wants_out = request.want_shut_down
        if broker.fenced:
            if wants_out:
                alive.should_shut_down = True
            elif not request.want_fence and is_caught_up:
                batch += self._unfenced(broker)
        elif request.want_fence:
            batch += self._fenced(broker)
            alive.should_shut_down = wants_out
        elif wants_out or broker.in_controlled_shutdown:
            batch += self._stopping(broker, alive)
        if request.offline_log_dirs:
            batch += self._directories_failed(broker, request.offline_log_dirs)
        if request.cordoned_log_dirs is not None and broker.cordoned_log_dirs != request.cordoned_log_dirs:
            batch.append(
                records.BrokerRegistrationChangeRecord(
                    broker.node_id, broker.epoch, cordoned_log_dirs=request.cordoned_log_dirs
                )
            )
        self.write(batch)
        return BrokerHeartbeatResponse(
            is_caught_up=is_caught_up,
            is_fenced=self.image.brokers[broker.node_id].fenced,
            should_shut_down=alive.should_shut_down,
        )

    def _unfenced(self, broker: RegisteredBroker) -> Iterator[Message]:
        yield records.BrokerRegistrationChangeRecord(broker.node_id, broker.epoch, fenced=-1)
        yield from self._elections(added=broker.node_id)

    def _elections(self, *, added: int | None = None) -> Iterator[Message]:
        """Elections of all partitions that nobody leads."""
        for topic, index, partition in self._partitions():
            if partition.leader == NO_LEADER:
                change = partition_change(topic.topic_id, index, partition, self._rules(topic, partition, added=added))
                if change is not None:
                    yield change

    def _fenced(self, broker: RegisteredBroker) -> Iterator[Message]:
        yield from self._removed(broker.node_id)
        yield records.BrokerRegistrationChangeRecord(broker.node_id, broker.epoch, fenced=1)

    def _stopping(self, broker: RegisteredBroker, alive: Liveness) -> Iterator[Message]:
        """A controlled shutdown: leaderships move away first; when everybody has seen that, the broker may go."""
        leads = any(partition.leader == broker.node_id for _, _, partition in self._partitions())
        if not broker.in_controlled_shutdown and leads:
            alive.controlled_shutdown_offset = self.log.end_offset
            yield records.BrokerRegistrationChangeRecord(broker.node_id, broker.epoch, in_controlled_shutdown=1)
            yield from self._removed(broker.node_id)
            return
        seen = min((self.liveness[each].metadata_offset for each in self._active_ids()), default=alive.metadata_offset)
        if leads or (broker.in_controlled_shutdown and seen < alive.controlled_shutdown_offset):
            return
        alive.should_shut_down = True
        yield from self._fenced(broker)

    def _active_ids(self) -> list[int]:
        return [each for each in self.image.brokers if self._is_active(each) and each in self.liveness]

    def _directories_failed(self, broker: RegisteredBroker, failed: Sequence[Uuid]) -> Iterator[Message]:
        left = tuple(each for each in broker.log_dirs if each not in failed)
        if left != broker.log_dirs:
            yield from self._removed(broker.node_id)
            yield records.BrokerRegistrationChangeRecord(broker.node_id, broker.epoch, log_dirs=left)

    def tick(self, now_ms: int) -> None:
        """Fence one broker whose session is over, if there is one."""
        for broker in self.image.brokers.values():
            alive = self.liveness.get(broker.node_id)
            if broker.fenced or (alive is not None and alive.contact_ms is None):
                continue
            if not self._has_session(broker, now_ms):
                self.write(list(self._fenced(broker)))
                return

    def become_active(self, leader: int, now_ms: int) -> None:
        """Another controller takes over, in a new epoch: it knows nobody's last contact, so every session begins
        anew."""
        self.log.elect(leader)
        self.replay.advance(self.log.end_offset - 1, self.log.epoch)
        self.replay.publish()
        self.liveness = {
            each.node_id: Liveness(each.epoch, contact_ms=now_ms)
            for each in self.image.brokers.values()
            if not each.fenced
        }

    # Partitions (cluster.md 4.11, 4.12 and 4.18)

    def alter_isrs(
        self, request: alter_partition.AlterPartitionRequest, now_ms: int
    ) -> alter_partition.AlterPartitionResponse:
        """A leader asks for another ISR."""
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return alter_partition.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        batch: list[Message] = []
        accepted: dict[tuple[Uuid, int], ErrorCode] = {}
        for asked_topic in request.topics:
            topic = self.image.topic_by_id(asked_topic.topic_id)
            for asked in asked_topic.partitions:
                error = self._refusal(request.broker_id, topic, asked)
                accepted[asked_topic.topic_id, asked.partition_index] = error
                if error or topic is None:
                    continue
                partition = topic.partitions[asked.partition_index]
                change = partition_change(
                    topic.topic_id,
                    asked.partition_index,
                    partition,
                    self._rules(topic, partition),
                    isr=[each.broker_id for each in asked.new_isr_with_epochs],
                    leader_recovered=asked.leader_recovery_state == 0,
                )
                if change is not None:
                    batch.append(change)
        self.write(batch)
        return alter_partition.AlterPartitionResponse(
            topics=tuple(
                alter_partition.ResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        self._altered(
                            topic.topic_id, each.partition_index, accepted[topic.topic_id, each.partition_index]
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _refusal(self, node_id: int, topic: TopicImage | None, asked: alter_partition.PartitionData) -> ErrorCode:
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = topic.partitions.get(asked.partition_index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if asked.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if node_id != partition.leader:
            return ErrorCode.INVALID_REQUEST
        if asked.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        members = [each.broker_id for each in asked.new_isr_with_epochs]
        if not set(members) <= set(partition.replicas) or partition.leader not in members:
            return ErrorCode.INVALID_REQUEST
        if asked.leader_recovery_state and len(members) > 1:
            return ErrorCode.INVALID_REQUEST
        for each in asked.new_isr_with_epochs:
            known = self.image.brokers.get(each.broker_id)
            if not self._is_active(each.broker_id) or known is None or each.broker_epoch not in (-1, known.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def _altered(self, topic_id: Uuid, index: int, error: ErrorCode) -> alter_partition.ResponsePartitionData:
        if error:
            return alter_partition.ResponsePartitionData(partition_index=index, error_code=error)
        topic = self.image.topic_by_id(topic_id)
        assert topic is not None
        partition = topic.partitions[index]
        return alter_partition.ResponsePartitionData(
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=partition.isr,
            leader_recovery_state=int(partition.recovering),
            partition_epoch=partition.partition_epoch,
        )

    def assign(
        self, request: assign_replicas_to_dirs.AssignReplicasToDirsRequest, now_ms: int
    ) -> assign_replicas_to_dirs.AssignReplicasToDirsResponse:
        """A broker tells where replicas are."""
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return assign_replicas_to_dirs.AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        batch: list[Message] = []
        answers = []
        for directory in request.directories:
            topics = []
            for asked in directory.topics:
                partitions = []
                for each in asked.partitions:
                    error = self._assigned(broker, directory.id, asked.topic_id, each.partition_index, batch)
                    partitions.append(assign_replicas_to_dirs.ResponsePartitionData(each.partition_index, error))
                topics.append(assign_replicas_to_dirs.ResponseTopicData(asked.topic_id, tuple(partitions)))
            answers.append(assign_replicas_to_dirs.ResponseDirectoryData(directory.id, tuple(topics)))
        self.write(batch)
        return assign_replicas_to_dirs.AssignReplicasToDirsResponse(directories=tuple(answers))

    def _assigned(
        self, broker: RegisteredBroker, directory: Uuid, topic_id: Uuid, index: int, batch: list[Message]
    ) -> ErrorCode:
        topic = self.image.topic_by_id(topic_id)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.node_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        places = list(partition.directories)
        places[partition.replicas.index(broker.node_id)] = directory
        is_offline = directory not in (*_ONLINE_ANYWHERE, *broker.log_dirs)
        change = partition_change(
            topic_id,
            index,
            partition,
            self._rules(topic, partition, directories=tuple(places)),
            isr=[each for each in partition.isr if each != broker.node_id] if is_offline else None,
            directories=tuple(places),
        )
        if change is not None and not is_offline and change.leader != -2 and partition.leader == NO_LEADER:
            change = records.PartitionChangeRecord(index, topic_id, directories=tuple(places))  # elects nobody
        if change is not None:
            batch.append(change)
        return ErrorCode.NONE

    def elect(self, request: elect_leaders.ElectLeadersRequest, now_ms: int) -> elect_leaders.ElectLeadersResponse:
        """Elections of preferred replicas; of partitions without a leader any valid one."""
        asked = request.topic_partitions
        if asked is None:
            asked = tuple(
                elect_leaders.TopicPartitions(topic.name, tuple(topic.partitions))
                for topic in self.image.topics.values()
            )
        batch: list[Message] = []
        results = []
        for named in asked:
            topic = self.image.topics.get(named.topic)
            codes = []
            for index in named.partitions:
                partition = None if topic is None else topic.partitions.get(index)
                if topic is None or partition is None:
                    codes.append(elect_leaders.PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                    continue
                rules = self._rules(topic, partition)
                change = partition_change(topic.topic_id, index, partition, rules, prefers_first=True)
                if change is not None:
                    batch.append(change)
                code = ErrorCode.ELECTION_NOT_NEEDED if change is None else ErrorCode.NONE
                codes.append(elect_leaders.PartitionResult(index, code))
            results.append(elect_leaders.ReplicaElectionResult(named.topic, tuple(codes)))
        self.write(batch)
        return elect_leaders.ElectLeadersResponse(replica_election_results=tuple(results))

    def move_leaders(
        self, choose: Callable[[list[int]], int], *, topics: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Have every partition of `topics` that is led be led by one of its ISR that `choose` picks: what an operator
        does with reassignments and elections, in one step."""
        batch: list[Message] = []
        for topic, index, partition in self._partitions():
            members = [each for each in partition.isr if self._rules(topic, partition).may_lead(each)]
            if partition.leader != NO_LEADER and members and topics(topic.name):
                leader = choose(members)  # perhaps the same one, in a new epoch
                batch.append(records.PartitionChangeRecord(index, topic.topic_id, leader=leader))
        self.write(batch)

    # Topics and producer ids (cluster.md 5.2 and 6.6)

    def create(self, request: create_topics.CreateTopicsRequest, now_ms: int) -> create_topics.CreateTopicsResponse:
        """New topics, spread over the brokers."""
        return create_topics.CreateTopicsResponse(
            topics=tuple(self._created(each, is_for_real=not request.validate_only) for each in request.topics)
        )

    def _created(
        self, wanted: create_topics.CreatableTopic, *, is_for_real: bool
    ) -> create_topics.CreatableTopicResult:
        def refused(error: ErrorCode) -> create_topics.CreatableTopicResult:
            return create_topics.CreatableTopicResult(name=wanted.name, error_code=error, error_message=error.name)

        if wanted.name in self.image.topics:
            return refused(ErrorCode.TOPIC_ALREADY_EXISTS)
        placed = self._placed(wanted)
        if isinstance(placed, ErrorCode):
            return refused(placed)
        topic_id = self.new_id()
        batch: list[Message] = [records.TopicRecord(wanted.name, topic_id)]
        batch += [
            records.ConfigRecord(ConfigResourceType.TOPIC, wanted.name, config.name, config.value)
            for config in wanted.configs
        ]
        for index, replicas in placed.items():
            isr = tuple(each for each in replicas if self._is_active(each))
            if not isr:
                return refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
            batch.append(
                records.PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=isr,
                    leader=isr[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=tuple(self._only_directory(each) for each in replicas),
                )
            )
        if is_for_real:
            self.write(batch)
        return create_topics.CreatableTopicResult(
            name=wanted.name,
            topic_id=topic_id,
            num_partitions=len(placed),
            replication_factor=len(next(iter(placed.values()))),
            configs=(),
        )

    def _placed(self, wanted: create_topics.CreatableTopic) -> dict[int, tuple[int, ...]] | ErrorCode:
        """Replicas by partition: those asked for, else striped over the brokers, live ones first."""
        if wanted.assignments:
            return {each.partition_index: each.broker_ids for each in wanted.assignments}
        factor = max(1, wanted.replication_factor)
        live = [each for each in self.image.brokers if self._is_active(each)]
        if not live or factor > len(self.image.brokers):
            return ErrorCode.INVALID_REPLICATION_FACTOR
        fenced = [each for each in self.image.brokers if each not in live]
        start = len(self.image.topics)
        placed = {}
        for index in range(max(1, wanted.num_partitions)):
            turn = (start + index) % len(live)
            placed[index] = (*live[turn:], *live[:turn], *fenced)[:factor]
        return placed

    def _only_directory(self, node_id: int) -> Uuid:
        broker = self.image.brokers.get(node_id)
        return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else UNASSIGNED_DIRECTORY

    def delete(self, request: delete_topics.DeleteTopicsRequest, now_ms: int) -> delete_topics.DeleteTopicsResponse:
        """Topics go, with everything in them."""
        wanted = request.topics or tuple(delete_topics.DeleteTopicState(name=name) for name in request.topic_names)
        results = []
        for each in wanted:
            topic = self.image.topics.get(each.name) if each.name else self.image.topic_by_id(each.topic_id)
            error = ErrorCode.NONE
            if topic is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each.name else ErrorCode.UNKNOWN_TOPIC_ID
            else:
                self.write([records.RemoveTopicRecord(topic.topic_id)])
            results.append(
                delete_topics.DeletableTopicResult(
                    name=each.name if topic is None else topic.name,
                    topic_id=each.topic_id if topic is None else topic.topic_id,
                    error_code=error,
                )
            )
        return delete_topics.DeleteTopicsResponse(responses=tuple(results))

    def allocate_producer_ids(self, request: AllocateProducerIdsRequest, now_ms: int) -> AllocateProducerIdsResponse:
        """A block of its own for a broker."""
        broker = self.image.brokers.get(request.broker_id)
        if broker is None:
            return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        if broker.epoch != request.broker_epoch:
            return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        start = self.image.next_producer_id
        self.write([records.ProducerIdsRecord(broker.node_id, broker.epoch, start + BLOCK)])
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK)

    # All of them

    def answer(self, request: Message, now_ms: int) -> Message:
        """The response to any request that a broker sends, but for those that follow the log."""
        return self._answers[type(request)](request, now_ms)

    def open_envelope(self, envelope: EnvelopeRequest, now_ms: int) -> EnvelopeResponse:
        """A client's request that a broker passes on."""
        frame = envelope.request_data
        header = decode_request_header(frame)
        request = decode_request(header.api_key, header.api_version, frame, header.body_offset)
        response = self.answer(request, now_ms)
        data = b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, response))
        return EnvelopeResponse(response_data=data[SIZE_BYTES:])
