"""One partition on several brokers, over pipes that lose requests and answers, with machines that crash: the logs,
followers, fetchers and leaders' decisions of production on lying disks, beside a model of the controller.

Everything happens in an order that a seed decides. After each step the oracle compares what lies below the high
watermarks: what was committed once stays, byte by byte, on whoever has it (cluster.md 8 and 10).
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from batches import ORDERS, data
from cluster_images import ORDERS_ID, broker, delta, image, partition, topic
from logs import Logs
from manual_clock import ManualClock
from manual_flusher import ManualFlusher

from eosin.client.addresses import Address
from eosin.cluster.quorum.rules.image import NO_LEADER, ClusterImage, PartitionRegistration
from eosin.cluster.replication.fetch_session import FollowerFetchLimits, PartitionKey
from eosin.cluster.replication.fetcher import Fetch, Fetcher, SendListOffsets
from eosin.cluster.replication.followed_replica import FollowedReplica, nobody
from eosin.cluster.replication.replica_set import ReplicaSet
from eosin.cluster.replication.rules import leading
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.cluster.replication.rules.led_partition import IsrChange, LedPartition
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid
from eosin.protocol.records.header import batches
from eosin.protocol.schemas.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from eosin.storage.disk.flusher import Durability
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, ReadResult

MAX_LAG_MS = 2000
BACKOFF_MS = 300
KEY = PartitionKey(ORDERS_ID, 0)
MOST_STEPS_TO_CALM = 3000


class Violation(AssertionError):
    """A promise was broken."""


class Controller:
    """The quorum: the partition's truth, and every state of it that was published."""

    def __init__(self, node_ids: tuple[int, ...]) -> None:
        self.alive: dict[int, int] = dict.fromkeys(node_ids, 0)
        """Broker epochs of those that are not fenced."""
        self.epochs = dict.fromkeys(node_ids, 0)
        self.truth = partition(node_ids[0], replicas=node_ids)
        self.published: list[ClusterImage] = []
        self._writes = 0
        self._publish()

    def _publish(self) -> None:
        brokers = tuple(
            replace(broker(each), epoch=epoch, fenced=each not in self.alive) for each, epoch in self.epochs.items()
        )
        self.published.append(replace(image(topic(self.truth), brokers=brokers), offset=len(self.published)))

    def _write(self, **changes: Any) -> None:
        self.truth = replace(self.truth, partition_epoch=self.truth.partition_epoch + 1, **changes)

    def fence(self, node_id: int) -> None:
        """The broker has not been heard of: it leaves the ISR, unless it is the last one in it."""
        if self.alive.pop(node_id, None) is None:
            return
        isr = tuple(each for each in self.truth.isr if each != node_id) or self.truth.isr
        if isr != self.truth.isr or self.truth.leader == node_id:
            self._write(isr=isr)
            if self.truth.leader == node_id:
                self._elect()
        self._publish()

    def _elect(self) -> None:
        leader = next((each for each in self.truth.isr if each in self.alive), NO_LEADER)
        self.truth = replace(self.truth, leader=leader, leader_epoch=self.truth.leader_epoch + 1)

    def register(self, node_id: int) -> int:
        """A new incarnation; returns its epoch."""
        self.fence(node_id)
        self._writes += 1
        self.epochs[node_id] = self.alive[node_id] = self._writes
        if self.truth.leader == NO_LEADER:
            self._write()
            self._elect()
        self._publish()
        return self._writes

    def elect_another(self, chance: random.Random) -> None:
        """Move leadership to any member of the ISR."""
        candidates = [each for each in self.truth.isr if each in self.alive]
        if self.truth.leader != NO_LEADER and candidates:
            leader = chance.choice(candidates)
            self._write(leader=leader, leader_epoch=self.truth.leader_epoch + 1)
            self._publish()

    def alter_isr(self, node_id: int, own_epoch: int, change: IsrChange) -> IsrChangeResult | None:
        """AlterPartition (cluster.md 4.11); None: the broker is of an older incarnation."""
        if self.epochs[node_id] != own_epoch or node_id not in self.alive:
            return None
        if change.leader_epoch != self.truth.leader_epoch:
            return IsrChangeResult(ErrorCode.FENCED_LEADER_EPOCH)
        if change.partition_epoch != self.truth.partition_epoch:
            return IsrChangeResult(ErrorCode.INVALID_UPDATE_VERSION)
        for member, epoch in change.isr:
            if member not in self.alive or epoch not in (-1, self.epochs[member]):
                return IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA)
        self._write(isr=change.node_ids)
        self._publish()
        truth = self.truth
        return IsrChangeResult(ErrorCode.NONE, truth.leader_epoch, truth.partition_epoch, truth.isr)


@dataclass
class Message:
    """Something on its way between two incarnations."""

    asker: "Node"
    """The node that waits for an answer."""
    target: "Node"
    deliver: Callable[[], None]
    lose: Callable[[], None]


@dataclass
class LeaderSession:
    """A leader's memory of one follower's fetcher."""

    epoch: int = 1
    partitions: dict[PartitionKey, FetchPartition] = field(default_factory=dict)


class Node:
    """One incarnation of a broker. `Leaderships`, `Handlers` and `Fetchers` of its `ReplicaSet`."""

    def __init__(self, world: "World", node_id: int, logs: Logs, broker_epoch: int) -> None:
        self.world = world
        self.node_id = node_id
        self.logs = logs
        self.broker_epoch = broker_epoch
        self.is_up = True
        self.seen = 0
        """The number of images that it has applied."""
        self.led: LedPartition | None = None
        self.fetchers: dict[int, Fetcher] = {}
        self.asking: set[int] = set()
        """Leaders that a request of ours is on its way to."""
        self.sessions: dict[int, LeaderSession] = {}
        self.work: list[Coroutine[Any, Any, None]] = []
        self.replicas = ReplicaSet(
            node_id,
            inter_broker_listener="PLAINTEXT",
            log_manager=logs.manager,
            log_config=lambda _: logs.config,
            pool=self,
            leaderships=self,
            handlers=self,
            clock=world.clock,
            backoff_ms=BACKOFF_MS,
        )

    @property
    def log(self) -> PartitionLog | None:
        return self.logs.manager.logs.get(ORDERS)

    @property
    def flusher(self) -> ManualFlusher:
        assert isinstance(self.logs.flusher, ManualFlusher)
        return self.logs.flusher

    def take_image(self) -> None:
        """The next publication of the controller reaches this broker."""
        after = self.world.controller.published[self.seen]
        if self.seen == 0 or not self._image.topics:
            self.seen, self._image = self.seen + 1, after
            self.replicas.begin(after)
            return
        before, self._image = self._image, after
        self.seen += 1
        self.replicas.apply(delta(before, after, ORDERS, brokers_changed=True))
        if self.led is not None:
            self._next(leading.context_changed(self.led, self._led_log(), self._context()))

    _image = ClusterImage()

    # Fetchers

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(work)

    def fetch(self, replica: FollowedReplica, leader_id: int, address: Address) -> None:
        self.release(replica)
        limits = FollowerFetchLimits(
            self.node_id, max_wait_ms=500, min_bytes=1, max_bytes=10_000, partition_max_bytes=250
        )
        fetcher = self.fetchers.setdefault(leader_id, Fetcher(limits, backoff_ms=BACKOFF_MS))
        fetcher.add(replica)
        replica.changed = fetcher.changed

    def release(self, replica: FollowedReplica) -> None:
        replica.changed = nobody
        for fetcher in self.fetchers.values():
            fetcher.remove(replica)

    def stop_idle(self) -> None:
        pass

    def ask_leader(self, leader_id: int) -> None:
        """Let the fetcher of one leader do its next step."""
        fetcher = self.fetchers.get(leader_id)
        if fetcher is None or leader_id in self.asking:
            return
        step = fetcher.next_step(self.world.now_ms, broker_epoch=self.broker_epoch)
        if not isinstance(step, Fetch | SendListOffsets):
            return
        self.asking.add(leader_id)
        request = step.request

        def lost() -> None:
            self.asking.discard(leader_id)
            fetcher.connection_lost(self.world.now_ms)

        def reach() -> None:
            target = self.world.nodes[leader_id]
            answer = target.answer(request)
            self.world.send(self, target, lambda: take(answer), lost)

        def take(answer: FetchResponse | ListOffsetsResponse) -> None:
            self.asking.discard(leader_id)
            if isinstance(answer, FetchResponse):
                fetcher.fetched(answer, self.world.now_ms)
            else:
                fetcher.offsets_listed(answer)

        self.world.send(self, self.world.nodes[leader_id], reach, lost)

    # Handlers

    def serve(self, partition: Any, log: PartitionLog) -> None:
        pass

    def let_go(self, partition: Any) -> None:
        pass

    def follow(self, log: PartitionLog) -> None:
        pass

    # Leaderships

    def lead(self, log: PartitionLog, topic_id: Uuid, registration: PartitionRegistration) -> None:
        log.on_durable = self._leader_durable
        self._next(leading.election_or_change(self.led, self.node_id, registration, log, self._context()))

    def resign(self, log: PartitionLog) -> None:
        self.led = None

    def _led_log(self) -> PartitionLog:
        assert self.log is not None
        return self.log

    def _leader_durable(self, log: PartitionLog) -> None:
        if self.led is not None:
            self._next(leading.context_changed(self.led, log, self._context()))

    def _context(self) -> leading.LeaderContext:
        return leading.LeaderContext(self._image.brokers, self.broker_epoch, 2, MAX_LAG_MS, self.world.now_ms)

    def _next(self, then: leading.LeaderStep) -> None:
        self.led = then.led
        self._led_log().advance_high_watermark(then.high_watermark)
        if then.change is not None:
            self.world.alter_isr(self, then.change)

    def isr_answered(self, change: IsrChange, answer: IsrChangeResult) -> None:
        if self.led is not None and self.log is not None:
            self._next(leading.controller_responded(self.led, change, answer, self.log, self._context()))

    def check_for_lag(self) -> None:
        if self.led is not None:
            self._next(leading.lag_checked(self.led, self._led_log(), self._context()))

    def produce(self, count: int) -> None:
        if self.led is None or self.log is None:
            return
        result = self.logs.append(self.log, data(count, size=self.world.chance.randrange(60)))
        if isinstance(result, Appended):
            self.world.produced += count

    # Serving followers

    def answer(self, request: FetchRequest | ListOffsetsRequest) -> FetchResponse | ListOffsetsResponse:
        return self._fetched(request) if isinstance(request, FetchRequest) else self._offsets(request)

    def _fetched(self, request: FetchRequest) -> FetchResponse:
        follower = request.replica_state.replica_id
        session = self.sessions.get(follower)
        if request.session_epoch == 0:
            session = self.sessions[follower] = LeaderSession()
        elif session is None or session.epoch != request.session_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        else:
            session.epoch += 1
        for each in request.topics:
            session.partitions |= {PartitionKey(each.topic_id, wanted.partition): wanted for wanted in each.partitions}
        for gone in request.forgotten_topics_data:
            for index in gone.partitions:
                session.partitions.pop(PartitionKey(gone.topic_id, index), None)
        wanted = session.partitions.get(KEY)
        answers = () if wanted is None else (self._partition(request, wanted),)
        topics = (FetchableTopicResponse(topic_id=ORDERS_ID, partitions=answers),) if answers else ()
        return FetchResponse(session_id=follower, responses=topics)

    def _epoch_error(self, told: int) -> ErrorCode:
        if self.led is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if told < self.led.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if told > self.led.leader_epoch else ErrorCode.NONE

    def _partition(self, request: FetchRequest, wanted: FetchPartition) -> PartitionData:
        error = self._epoch_error(wanted.current_leader_epoch)
        if error or self.led is None:
            return PartitionData(error_code=error)
        state, log = request.replica_state, self._led_log()
        told = leading.FollowerFetch(
            state.replica_id,
            state.replica_epoch,
            wanted.current_leader_epoch,
            wanted.fetch_offset,
            wanted.log_start_offset,
        )
        error = leading.refusal(self.led, told, self._context())
        if error:
            return PartitionData(error_code=error)
        if wanted.fetch_offset < log.log_start_offset:
            return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        if wanted.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(wanted.last_fetched_epoch)
            if end < 0:
                return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                return PartitionData(diverging_epoch=EpochEndOffset(epoch, end), high_watermark=log.high_watermark)
        if wanted.fetch_offset > log.log_end_offset:
            return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        self._next(leading.fetched(self.led, told, log, self._context()))
        read = log.read(wanted.fetch_offset, max_bytes=wanted.partition_max_bytes, isolation=None, min_one_batch=True)
        assert isinstance(read, ReadResult)
        assert not hasattr(read.records, "send_to")
        return PartitionData(
            error_code=read.error,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            records=bytes(read.records),  # type: ignore[arg-type]
        )

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (asked,) = request.topics[0].partitions
        error = self._epoch_error(asked.current_leader_epoch)
        offset = -1
        if not error:
            log = self._led_log()
            offset = log.log_end_offset if asked.timestamp == -1 else log.log_start_offset
        answer = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("orders", (answer,)),))


class World:
    """Brokers, pipes, a controller and an oracle."""

    def __init__(self, seed: int, *, brokers: int = 3, losses: bool = True) -> None:
        self.chance = random.Random(seed)
        self.losses = losses
        self.slow_disk = self.chance.randrange(brokers + 1)
        """The broker whose disk syncs seldom; 0 for none."""
        self.clock = ManualClock()
        self.controller = Controller(tuple(range(1, brokers + 1)))
        self.nodes: dict[int, Node] = {}
        self.messages: list[Message] = []
        self.committed: dict[int, bytes] = {}
        """Every batch that was ever below a high watermark, by its base offset."""
        self._checked: dict[Node, tuple[int, int]] = {}
        self.produced = 0
        self.cuts = 0

    @property
    def now_ms(self) -> int:
        return self.clock.elapsed_ms()

    async def open(self) -> None:
        for node_id in self.controller.epochs:
            logs = Logs(
                durability=Durability.FSYNC,
                flusher=ManualFlusher(),
                clock=self.clock,
                replicated=True,
                config=LogConfig(segment_bytes=600),
            )
            await logs.manager.open()
            self.nodes[node_id] = Node(self, node_id, logs, self.controller.register(node_id))

    async def close(self) -> None:
        for node in self.nodes.values():
            await self._run_work(node)
            if node.is_up:
                await node.logs.manager.close(clean=False)

    def send(self, asker: Node, target: Node, deliver: Callable[[], None], lose: Callable[[], None]) -> None:
        self.messages.append(Message(asker, target, deliver, lose))

    def alter_isr(self, node: Node, change: IsrChange) -> None:
        """Ask the controller, and hear its answer, each after a while or never: then it is asked again."""

        def unreachable() -> None:
            node.isr_answered(change, IsrChangeResult(ErrorCode.NETWORK_EXCEPTION))

        def decide() -> None:
            answer = self.controller.alter_isr(node.node_id, node.broker_epoch, change)
            if answer is not None:
                self.send(node, node, lambda: node.isr_answered(change, answer), unreachable)

        self.send(node, node, decide, unreachable)

    # Steps ----------------------------------------------------------------------------------------------------------

    async def run(self, steps: int) -> None:
        """So many steps of any kind, each followed by a look of the oracle."""
        actions: tuple[tuple[int, Callable[[], Coroutine[Any, Any, None]]], ...] = (
            (40, self._fetch),
            (80, self._deliver),
            (24, self._sync),
            (12, self._produce),
            (20, self._take_image),
            (6, self._pass_time),
            (12, self._run_some_work),
            (2, self._look_for_lag),
            (2, self._checkpoint),
            (1, self._crash),
            (1, self._crash_all),
            (6, self._restart),
            (1, self._elect),
        )
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            (action,) = self.chance.choices([action for _, action in actions], weights)
            await action()
            self.check()

    def _up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_up]

    def _any(self) -> Node | None:
        up = self._up()
        return self.chance.choice(up) if up else None

    async def _fetch(self) -> None:
        node = self._any()
        if node is not None and node.fetchers:
            node.ask_leader(self.chance.choice(list(node.fetchers)))

    async def _deliver(self) -> None:
        if not self.messages:
            return
        message = self.messages.pop(self.chance.randrange(len(self.messages)))
        if not self._is_there(message.asker):
            return
        if not self._is_there(message.target) or (self.losses and self.chance.random() < 0.05):
            message.lose()
        else:
            message.deliver()

    def _is_there(self, node: Node) -> bool:
        """True if this incarnation still runs."""
        return node.is_up and self.nodes[node.node_id] is node

    async def _sync(self) -> None:
        node = self._any()
        if node is None or (node.node_id == self.slow_disk and self.chance.random() < 0.8):
            return
        self.chance.choice((node.flusher.begin, node.flusher.end, node.flusher.flush))()

    async def _produce(self) -> None:
        leaders = [node for node in self._up() if node.led is not None]
        if leaders:
            self.chance.choice(leaders).produce(self.chance.randrange(1, 4))

    async def _take_image(self) -> None:
        behind = [node for node in self._up() if node.seen < len(self.controller.published)]
        if behind:
            self.chance.choice(behind).take_image()

    async def _pass_time(self) -> None:
        self.clock.advance(self.chance.randrange(1, 600))

    async def _run_some_work(self) -> None:
        node = self._any()
        if node is not None:
            await self._run_work(node)

    async def _run_work(self, node: Node) -> None:
        work, node.work = node.work, []
        for each in work:
            self.cuts += 1
            await each

    async def _look_for_lag(self) -> None:
        node = self._any()
        if node is not None:
            node.check_for_lag()

    async def _checkpoint(self) -> None:
        node = self._any()
        if node is not None and not node.work:
            await node.logs.manager.checkpoint(force=self.chance.random() < 0.5)

    async def _crash(self) -> None:
        node = self._any()
        if node is not None:
            self._crash_one(node)

    async def _crash_all(self) -> None:
        """The power of the whole room goes."""
        for node in self._up():
            self._crash_one(node)

    def _crash_one(self, node: Node) -> None:
        node.is_up = False
        for each in node.work:
            each.close()
        node.work.clear()
        disk = node.logs.fake
        power = self.chance.random() < 0.7
        node.logs.disk = disk.power_loss(self.chance) if power else disk.killed()

    async def _restart(self) -> None:
        down = [node for node in self.nodes.values() if not node.is_up]
        if not down:
            return
        node = self.chance.choice(down)
        if self.chance.random() < 0.3 and node.node_id in self.controller.alive:
            self.controller.fence(node.node_id)
            return
        await self._start_again(node)

    async def _start_again(self, node: Node) -> None:
        assert isinstance(node.logs.disk, LyingDisk)
        logs = Logs(
            disk=node.logs.disk,
            durability=Durability.FSYNC,
            flusher=ManualFlusher(),
            clock=self.clock,
            replicated=True,
            config=node.logs.config,
        )
        await logs.manager.open()
        epoch = self.controller.register(node.node_id)
        again = self.nodes[node.node_id] = Node(self, node.node_id, logs, epoch)
        again.seen = len(self.controller.published) - 1  # it unfences when it has seen its own registration
        again.take_image()

    async def _elect(self) -> None:
        self.controller.elect_another(self.chance)

    async def calm(self) -> None:
        """No more faults: everybody is up, everything arrives, until all have everything."""
        self.losses = False
        for node in list(self.nodes.values()):
            if not node.is_up:
                await self._start_again(node)
        for _ in range(MOST_STEPS_TO_CALM):
            for node in self._up():
                while node.seen < len(self.controller.published):
                    node.take_image()
                await self._run_work(node)
                node.flusher.flush()
                for leader_id in list(node.fetchers):
                    node.ask_leader(leader_id)
            while self.messages:
                await self._deliver()
            self.check()
            if self._is_calm():
                return
            self.clock.advance(50)
        states = {node.node_id: (node.log, node.led, node.replicas.replica(ORDERS)) for node in self._up()}
        raise Violation(f"it never calms down: {self.controller.truth}, {states}")

    def _is_calm(self) -> bool:
        ends = {(node.log.log_end_offset, node.log.high_watermark) for node in self._up() if node.log is not None}
        is_whole = len(self.controller.truth.isr) == len(self.nodes)
        return is_whole and len(ends) == 1 and all(end == committed for end, committed in ends)

    # The oracle -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise Violation if a committed batch has changed anywhere, or went from a broker that had it committed."""
        for node in self._up():
            log = node.log
            if log is None:
                continue
            checked, start = self._checked.get(node, (0, 0))
            high_watermark = log.high_watermark
            if high_watermark < checked:
                raise Violation(f"broker {node.node_id} goes back from {checked} to {high_watermark}")
            if log.durable_end < high_watermark and node.led is not None:
                raise Violation(f"leader {node.node_id} commits {high_watermark}, durable is {log.durable_end}")
            if high_watermark > checked:
                self._compare(node, log, checked, high_watermark)
                self._checked[node] = high_watermark, start

    def _compare(self, node: Node, log: PartitionLog, first: int, end: int) -> None:
        for run in log.runs(first):
            view = bytes(run)
            for position, header in batches(view):
                if header.base_offset >= end or header.base_offset < first:
                    continue
                batch = view[position : position + header.size]
                if self.committed.setdefault(header.base_offset, batch) != batch:
                    raise Violation(f"broker {node.node_id} has another batch at offset {header.base_offset}")

    def check_nothing_lost(self) -> None:
        """Raise Violation unless every committed batch is in every log, after `calm`."""
        for node in self._up():
            assert node.log is not None
            held = {
                header.base_offset: bytes(run)[position : position + header.size]
                for run in node.log.runs()
                for position, header in batches(bytes(run))
            }
            for offset, batch in self.committed.items():
                if held.get(offset) != batch:
                    raise Violation(f"broker {node.node_id} has lost the committed batch at offset {offset}")
