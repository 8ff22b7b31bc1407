"""The share groups of a run of a cluster (KIP-932): how they are set up, who is in them, and what is seen of them.

Whom a leader hands out what is written down at the leader, in the step in which it does so. In the end members that
accept everything bring each group to the ends of its partitions, so that nothing is left of which nobody knows.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from eosin.broker.sharing.led_share_partition import LedSharePartition
from eosin.broker.sharing.rules.window import AcquiredRange
from eosin.cluster.quorum.rules.image import ClusterImage
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas import alter_share_group_offsets as altering
from eosin.protocol.schemas import describe_share_group_offsets as describing
from eosin.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.records.metadata import ConfigRecord
from eosin.protocol.types import Message
from simulation.client import Session
from simulation.cluster.machines import ClusterMachine
from simulation.cluster.share_plan import LOCK_S, ShareMemberPlan, SharePlan
from simulation.cluster.world import ClusterWorld
from simulation.network import ConnectionLost
from simulation.plan import PARTITIONS
from simulation.readers import opened
from simulation.share_history import HandedOut, Place, Reset, SharePromise, StartTold, Tenure
from simulation.share_members import ShareMember
from simulation.values import COMPACTED

DRAIN_S: Final = 60.0
"""When faults are over, every group comes to the end within this."""
WATCH_S: Final = 0.4


class Shares:
    """All share groups of a run."""

    def __init__(
        self,
        world: ClusterWorld,
        machines: Sequence[ClusterMachine],
        plans: Sequence[SharePlan],
        *,
        image: Callable[[], ClusterImage],
        decide: Callable[[Sequence[Message]], None],
        min_isr: int,
    ) -> None:
        """`image` tells what the controllers have decided by now; `decide` has them decide something."""
        self._world = world
        self._machines = machines
        self._plans = plans
        self._image = image
        self._decide = decide
        self._min_isr = min_isr
        self._windows: dict[LedSharePartition, int] = {}
        self._settler = 0
        self._is_reset = {plan.group: asyncio.Event() for plan in plans}
        self._administrator = Session(world, "share administrator", punctual=frozenset({"control"}))
        history = world.history.shares
        for plan in plans:
            letters = _letters(plan) if plan.has_letters else None
            history.groups[plan.group] = SharePromise(
                plan.group, plan.topics, plan.is_committed, plan.count_limit, LOCK_S, letters
            )

    # Setting up

    async def set_up(self) -> None:
        """Give the groups their settings, and make the topic of their dead letters."""
        topics = [self._topic(_letters(plan).topic) for plan in self._plans if plan.has_letters]
        if topics:
            await self._create(topics)
        records: list[Message] = []
        for plan in self._plans:
            settings = {"share.auto.offset.reset": "earliest"}
            if plan.is_committed:
                settings["share.isolation.level"] = "read_committed"
            if plan.has_letters:
                settings["errors.deadletterqueue.topic.name"] = _letters(plan).topic
                settings["errors.deadletterqueue.copy.record.enable"] = "true"
            records += [ConfigRecord(ConfigResourceType.GROUP, plan.group, *each) for each in settings.items()]
        if records:
            self._decide(records)

    def _topic(self, name: str) -> CreatableTopic:
        configs = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": str(self._min_isr)}
        settings = tuple(CreatableTopicConfig(*each) for each in configs.items())
        return CreatableTopic(name, 1, len(self._machines), configs=settings)

    async def _create(self, topics: Sequence[CreatableTopic]) -> None:
        def error_of(response: Any) -> ErrorCode:
            errors = [ErrorCode(topic.error_code) for topic in response.topics]
            left = [each for each in errors if each not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)]
            return left[0] if left else ErrorCode.NONE

        request = CreateTopicsRequest(tuple(topics), 10_000)
        await self._administrator.insist(ApiKey.CREATE_TOPICS, 5, request, error_of, lane="control")

    # Members, and others who ask

    def start(self, is_over: Callable[[], bool]) -> list["asyncio.Task[None]"]:
        """Everybody, until all is over."""
        tasks: list[asyncio.Task[None]] = []
        for plan in self._plans:
            tasks.append(asyncio.create_task(self._watch(plan, is_over)))
            for number, member in enumerate(plan.members):
                tasks.append(asyncio.create_task(self._live(plan, number, member, is_over)))
            if plan.resets_s is not None:
                tasks.append(asyncio.create_task(self._reset(plan, plan.resets_s)))
        return tasks

    async def _live(self, plan: SharePlan, number: int, member: ShareMemberPlan, is_over: Callable[[], bool]) -> None:
        """One member after the other, in the same place."""
        await asyncio.sleep(member.comes_s)
        life = 0
        while not is_over():
            life += 1
            name = f"{plan.group}/{number}.{life}"
            await ShareMember(self._world, self._promise(plan), name).run(is_over, life_s=member.life_s)
            if plan.resets_s is not None:
                await self._until_reset(plan)

    async def _until_reset(self, plan: SharePlan) -> None:
        """While an administrator wants the group to be empty, nobody joins it."""
        for reset in self._world.history.shares.resets:
            if reset.group == plan.group:
                await self._is_reset[plan.group].wait()

    async def _reset(self, plan: SharePlan, after_s: float) -> None:
        await asyncio.sleep(after_s)
        history = self._world.history
        reset = Reset(plan.group, history.moment())
        history.shares.resets.append(reset)
        partitions = [each for each in self._partitions(plan) if each.topic == plan.topics[0]]
        wanted = tuple(altering.AlterShareGroupOffsetsRequestPartition(each.partition, 0) for each in partitions)
        request = altering.AlterShareGroupOffsetsRequest(
            plan.group, (altering.AlterShareGroupOffsetsRequestTopic(plan.topics[0], wanted),)
        )

        def error_of(response: altering.AlterShareGroupOffsetsResponse) -> ErrorCode:
            errors = [response.error_code]
            errors += [each.error_code for topic in response.responses for each in topic.partitions]
            error = next((ErrorCode(each) for each in errors if each), ErrorCode.NONE)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if error is ErrorCode.NON_EMPTY_GROUP else error

        await self._administrator.insist(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request, error_of, lane="control")
        reset.answered = history.moment()
        self._is_reset[plan.group].set()

    async def _watch(self, plan: SharePlan, is_over: Callable[[], bool]) -> None:
        """Ask again and again where the group begins."""
        session = Session(self._world, f"watcher of {plan.group}")
        while not is_over():
            await self._starts(session, plan)
            await asyncio.sleep(WATCH_S * session.chance.random())

    async def _starts(self, session: Session, plan: SharePlan) -> dict[TopicPartition, int]:
        """Where the group begins, as somebody says; empty if nobody does."""
        world, shares = self._world, self._world.history.shares
        asked = world.history.moment()
        topics: dict[str, list[int]] = {}
        for each in self._partitions(plan):
            topics.setdefault(each.topic, []).append(each.partition)
        named = tuple(
            describing.DescribeShareGroupOffsetsRequestTopic(name, tuple(numbers)) for name, numbers in topics.items()
        )
        request = describing.DescribeShareGroupOffsetsRequest(
            (describing.DescribeShareGroupOffsetsRequestGroup(plan.group, named),)
        )
        try:
            answer = await session.send(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, request)
        except ConnectionLost:
            await session.back_off()
            return {}
        told = answer.groups[0]
        if told.error_code:
            await session.back_off()
            return {}
        found = {
            TopicPartition(topic.topic_name, each.partition_index): each.start_offset
            for topic in told.topics
            for each in topic.partitions
            if not each.error_code
        }
        moment = world.history.moment()
        for partition, offset in found.items():
            shares.starts.append(
                StartTold(plan.group, partition, offset, asked, moment, is_excused=world.history.may_be_stale)
            )
        return found

    def _partitions(self, plan: SharePlan) -> list[TopicPartition]:
        return [each for each in (*PARTITIONS, COMPACTED) if each.topic in plan.topics]

    def _promise(self, plan: SharePlan) -> SharePromise:
        return self._world.history.shares.groups[plan.group]

    # The end

    async def bring_to_the_end(self) -> None:
        """Every group reads all that there is, and accepts it."""
        await asyncio.gather(*(self._drain(plan) for plan in self._plans))
        await self._read_letters()

    async def _drain(self, plan: SharePlan) -> None:
        self._settler += 1
        name = f"{plan.group}/settler-{self._settler}"
        session = Session(self._world, f"{name} asks")
        member = ShareMember(self._world, self._promise(plan), name, is_steady=True)
        is_done = False
        reading = asyncio.create_task(member.run(lambda: is_done, life_s=2 * DRAIN_S))
        starts: dict[TopicPartition, int] = {}
        try:
            async with asyncio.timeout(DRAIN_S):
                while not starts or any(offset != self._end(each) for each, offset in starts.items()):
                    await asyncio.sleep(0.1)
                    starts = await self._starts(session, plan)
        except TimeoutError:
            ends = {each: self._end(each) for each in starts}
            self._world.fault(f"{plan.group} does not come to the end: it begins at {starts}, of {ends}")
        is_done = True
        await reading

    def _end(self, partition: TopicPartition) -> int:
        logs = [machine.logs.logs.get(partition) for machine in self._machines if machine.logs is not None]
        return max((log.high_watermark for log in logs if log is not None), default=-1)

    async def _read_letters(self) -> None:
        """Not as a `Consumer`, for what it has seen is judged by what producers wrote."""
        session = Session(self._world, "reader of letters")
        for plan in self._plans:
            if not plan.has_letters:
                continue
            letters = _letters(plan)
            texts = self._world.history.shares.letters[plan.group] = []
            offset, reached = -1, 0
            while offset != reached:
                offset = reached
                wanted = FetchPartition(letters.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
                request = FetchRequest(
                    min_bytes=1, max_bytes=1 << 20, topics=(FetchTopic(letters.topic, partitions=(wanted,)),)
                )
                answer = await session.insist(
                    ApiKey.FETCH, 11, request, lambda answer: ErrorCode(answer.responses[0].partitions[0].error_code)
                )
                piece = opened(answer.responses[0].partitions[0], offset)
                texts += [text for batch in piece.batches for text in batch.values]
                reached = piece.next_offset

    # At the leaders

    @contextmanager
    def watched(self) -> Iterator[None]:
        """For the time of the run: write down whom leaders hand out what."""
        sound = LedSharePartition.acquire

        def acquire(partition: LedSharePartition, member: str, *read: Any, **how: Any) -> list[AcquiredRange]:
            ranges = sound(partition, member, *read, **how)
            if ranges:
                self._note(partition, member, ranges)
            return ranges

        with patch.object(LedSharePartition, "acquire", acquire):
            yield

    def _note(self, partition: LedSharePartition, member: str, ranges: Sequence[AcquiredRange]) -> None:
        process = asyncio.get_running_loop()
        machine = next((each for each in self._machines if each.process is process), None)
        if machine is None:
            return  # of another world
        history = self._world.history
        tenure = Tenure(machine.node_id, machine.starts, partition.leader_epoch, partition.state_epoch)
        topic = self._image().topics.get(partition.name.topic)
        state = None if topic is None else topic.partitions.get(partition.name.partition)
        is_current = state is not None and (state.leader, state.leader_epoch) == (tenure.node_id, tenure.leader_epoch)
        window = self._windows.setdefault(partition, len(self._windows))
        moment, now = history.moment(), machine.scheduler.now
        for first, last, count in ranges:
            for offset in range(first, last + 1):
                place = Place(partition.key.group_id, partition.name, offset)
                given = HandedOut(place, member, count, moment, now, tenure, window, is_current)
                history.shares.handed_out.append(given)
        history.shares.stale += not is_current


def _letters(plan: SharePlan) -> TopicPartition:
    return TopicPartition(f"dlq.{plan.group}", 0)
