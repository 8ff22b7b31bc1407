"""A streams group as its rules decide about it, with its topics, its settings and its log; one line for each event."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.assignors.tasks import Task
from eosin.coordinator.groups.streams.log.records import encoded
from eosin.coordinator.groups.streams.rules.decide import decide, reads_topics
from eosin.coordinator.groups.streams.rules.events import StreamsEvent, StreamsHeartbeat, StreamsResult
from eosin.coordinator.groups.streams.rules.group import NO_DESCRIPTION, StreamsGroup
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.rules.records import StreamsKind
from eosin.coordinator.groups.streams.topology.topology import InternalTopic, Subtopology, Topology
from eosin.protocol.records.scan import KeyValue

AT_ONCE = StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
TOPOLOGY = Topology(0, (Subtopology("0", ("words",), (), (), (), (), ()),))
COUNTING = Topology(0, (Subtopology("0", ("words",), (), (InternalTopic("counts", 0, -1, ()),), (), (), ()),))
NOTHING = OwnedTasks()


class Topic(NamedTuple):
    """A topic as the coordinator sees it."""

    topic_id: bytes
    partitions: int


def topics(**counts: int) -> Mapping[str, Topic]:
    """Topics with their numbers of partitions."""
    return {name: Topic(name.encode().ljust(16, b"-"), count) for name, count in counts.items()}


class Cluster:
    """A group, with its topics and settings."""

    def __init__(self, config: StreamsGroupConfig = AT_ONCE, **counts: int) -> None:
        self.group = StreamsGroup("g")
        self.config = config
        self.topics = topics(**(counts or {"words": 4}))
        self.looked_at: object = None
        self.now_ms = 1_000_000
        self.kinds: list[StreamsKind] = []
        self.log: dict[bytes, KeyValue] = {}
        """The last record of each key."""
        self._offset = 0

    def happens(self, event: StreamsEvent) -> StreamsResult | None:
        """Decide an event; the answer, where somebody waits for one."""
        decided = decide(
            self.group,
            event,
            now_ms=self.now_ms,
            config=self.config,
            topics=self.topics,
            topics_changed=self.looked_at is not self.topics,
        )
        if not decided.is_refused and reads_topics(event):
            self.looked_at = self.topics
        self.group = decided.group
        self.kinds = [record.kind for record in decided.records]
        for each in encoded("g", decided.records):
            assert each.key is not None
            self.log[each.key] = KeyValue(self._offset, each.key, each.value)
            self._offset += 1
        return decided.answer

    def written(self) -> StreamsGroup:
        """The group without what is in memory alone."""
        return replace(
            self.group,
            configured=None,
            is_delayed=False,
            shutdown_by=None,
            endpoint_epoch=0,
            description=NO_DESCRIPTION,
            state_timestamp_ms=-1,
        )

    def beat(self, member_id: str, epoch: int, owned: OwnedTasks | None = None, **more: object) -> StreamsResult:
        """A heartbeat."""
        found = self.happens(StreamsHeartbeat(member_id, epoch, owned=owned, **more))  # type: ignore[arg-type]
        assert found is not None
        return found

    def join(self, member_id: str, topology: Topology = TOPOLOGY, process: str = "", **more: object) -> StreamsResult:
        """The first heartbeat of a member."""
        return self.beat(
            member_id,
            0,
            NOTHING,
            topology=topology,
            process_id=process or member_id,
            rebalance_timeout_ms=60_000,
            **more,
        )


def active(result: StreamsResult) -> set[int]:
    """The numbers of the tasks that a member is to run."""
    assert result.tasks is not None
    return {task.partition for task in result.tasks.active}


def owned(*numbers: int) -> OwnedTasks:
    """The tasks that a member says it runs."""
    return OwnedTasks(frozenset(Task("0", number) for number in numbers))
