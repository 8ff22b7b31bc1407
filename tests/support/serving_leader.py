"""A broker that leads one partition, with real logs and handlers; the controller and the followers are played by the
test (cluster.md 4.4, 4.9 and 4.10)."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import msgspec
from data_broker import DataBroker
from registrations import Broker, Partition

from eosin.broker.handlers import fetch, list_offsets
from eosin.cluster.replication.led_partitions import LedPartitions
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.cluster.replication.rules.led_partition import IsrChange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.storage.log.partition_log import PartitionLog

LAG_MS = 30_000


class Asked(NamedTuple):
    change: IsrChange
    answered: Callable[[IsrChangeResult], None]


class Controller:
    """Keeps what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.withdrawn = 0

    def request(
        self, topic_id: Uuid, partition: int, change: IsrChange, answered: Callable[[IsrChangeResult], None]
    ) -> None:
        self.asked.append(Asked(change, answered))

    def withdraw(self, topic_id: Uuid, partition: int) -> None:
        self.withdrawn += 1

    def confirm(self) -> tuple[int, ...]:
        """Write the oldest change."""
        change, answered = self.asked.pop(0)
        isr = change.node_ids
        answered(IsrChangeResult(ErrorCode.NONE, change.leader_epoch, change.partition_epoch + 1, isr))
        return isr


class OneRate:
    """A throttle (`Throttle`) of every partition: so many bytes a second, once a test has said so."""

    def __init__(self) -> None:
        self.rate = 0
        self.free_ms = 0
        self.counted = 0

    @property
    def is_on(self) -> bool:
        return self.rate > 0

    def count(self, partition: TopicPartition, size: int, now_ms: int) -> None:
        self.counted += size
        self.free_ms = max(self.free_ms, now_ms) + size * 1000 // self.rate

    def is_spent(self, partition: TopicPartition, now_ms: int, ahead_ms: int) -> bool:
        return now_ms + ahead_ms < self.free_ms

    def free_at_ms(self, now_ms: int) -> int:
        return max(now_ms, self.free_ms)


class Leader:
    """A broker that leads `orders-0`, whose other replicas are on brokers 2 and 3."""

    def __init__(self, broker: DataBroker, log: PartitionLog) -> None:
        self.broker = broker
        self.throttle = OneRate()
        self.log = log
        self.controller = Controller()
        self.brokers = {node_id: Broker(100 * node_id) for node_id in (1, 2, 3)}
        self.leading = LedPartitions(
            1,
            brokers=lambda: self.brokers,
            own_epoch=lambda: 100,
            isr_changes=self.controller,
            progress=broker.partitions.long_polls,
            clock=broker.clock,
            max_lag_ms=LAG_MS,
            throttle=self.throttle,
        )
        broker.services.led_partitions = self.leading

    def lead(self, *isr: int, replicas: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 1) -> None:
        registration = Partition(replicas, isr or replicas, self.log.leader_epoch, partition_epoch)
        self.leading.lead(self.log, self.log.topic_id, registration)

    def register(self, node_id: int, epoch: int) -> None:
        """A broker registers, perhaps once more."""
        self.brokers = {**self.brokers, node_id: Broker(epoch)}

    def elect(self, leader_epoch: int) -> None:
        """This broker leads in a new leader epoch."""
        self.log.become_leader(leader_epoch)
        self.lead(1, 2)

    def fetch_request(
        self,
        node_id: int,
        offset: int,
        *,
        leader_epoch: int | None = None,
        last_epoch: int = -1,
        replica_epoch: int | None = None,
        max_wait_ms: int = 0,
        log_start: int = 0,
    ) -> FetchRequest:
        epoch = self.log.leader_epoch if leader_epoch is None else leader_epoch
        wanted = FetchPartition(
            0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=log_start,
            partition_max_bytes=1 << 20,
        )
        told = self.brokers[node_id].epoch if replica_epoch is None else replica_epoch
        return FetchRequest(
            replica_state=ReplicaState(node_id, told),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_epoch=-1,
            topics=(FetchTopic(topic_id=self.log.topic_id, partitions=(wanted,)),),
        )

    async def fetched(self, node_id: int, offset: int, **how: Any) -> PartitionData:
        """The answer to a follower."""
        response = await self.broker.call(fetch.API, self.fetch_request(node_id, offset, **how), 17)
        assert response.error_code == 0
        answer: PartitionData = response.responses[0].partitions[0]
        return answer

    async def offset(self, timestamp: int, *, replica_id: int = -1, version: int = 10) -> tuple[int, int]:
        """Error and offset that ListOffsets tells."""
        wanted = ListOffsetsTopic("orders", (ListOffsetsPartition(0, self.log.leader_epoch, timestamp),))
        response = await self.broker.call(list_offsets.API, ListOffsetsRequest(replica_id, 0, (wanted,)), version)
        found = response.topics[0].partitions[0]
        return found.error_code, found.offset


async def leader(*, min_in_sync: int = 1, **config: Any) -> Leader:
    broker = await DataBroker.started(**config)
    await broker.create_topic(min_insync_replicas=str(min_in_sync))
    broker.log().become_leader(5)
    return Leader(broker, broker.log())


class FollowerSession:
    """The fetch session of a follower."""

    def __init__(self, leads: Leader, node_id: int) -> None:
        self._leads = leads
        self._node_id = node_id
        self.replica_epoch = leads.brokers[node_id].epoch
        self._session_id = 0
        self._epoch = 0

    def begin(
        self,
        named: Mapping[PartitionLog, int] | None = None,
        *,
        forgotten: Collection[PartitionLog] = (),
        **how: Any,
    ) -> Any:
        """Begin a fetch, of these logs from other offsets on than before: its response, or the task that waits. `how`
        has other fields of the request."""
        like = self._leads.fetch_request(self._node_id, 0, replica_epoch=self.replica_epoch)
        partition = like.topics[0].partitions[0]

        def topic(log: PartitionLog, offset: int) -> FetchTopic:
            of_log = {"partition": log.partition, "current_leader_epoch": log.leader_epoch, "fetch_offset": offset}
            return FetchTopic(topic_id=log.topic_id, partitions=(msgspec.structs.replace(partition, **of_log),))

        request = msgspec.structs.replace(
            like,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=tuple(topic(log, offset) for log, offset in (named or {}).items()),
            forgotten_topics_data=tuple(
                ForgottenTopic(topic_id=log.topic_id, partitions=(log.partition,)) for log in forgotten
            ),
            **how,
        )
        self._epoch += 1
        return self._leads.broker.begin(fetch.API, request, 17)

    async def answers(self, begun: Any) -> dict[tuple[Uuid, int], PartitionData]:
        """The partitions in the answer to what was begun, in order, by topic and number."""
        response = await self._leads.broker.answer(fetch.API, begun, 17)
        assert response.error_code == 0
        self._session_id = response.session_id
        return {
            (topic.topic_id, data.partition_index): data for topic in response.responses for data in topic.partitions
        }

    async def fetched(self, offset: int | None = None) -> PartitionData | None:
        """The answer to a fetch that does not wait, of the leader's first log; None when it tells nothing."""
        named = {} if offset is None else {self._leads.log: offset}
        answers = await self.answers(self.begin(named))
        return answers.get((self._leads.log.topic_id, 0))


async def idle_follower(leads: Leader, node_id: int = 2) -> FollowerSession:
    """A follower that has been told everything."""
    session = FollowerSession(leads, node_id)
    assert await session.fetched(leads.log.log_end_offset) is not None
    assert await session.fetched() is None
    return session
