"""Kafka Streams with group.protocol=streams (KIP-1071) counts words: through a repartition and a store, which the
broker makes topics for, at least once and exactly once; and kill -9 of a member changes no count."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from real_clients import confluent, streams
from real_clients.tools import OF_REFERENCE, KafkaScripts, Ran
from scenario import Scenario
from toolchains import skipped_without
from waiting import until, wait_until
from wire import Wire, unique
from wire_group import RawMember
from wire_streams_group import StreamsMember, counting, described

from eosin.client.client import Client
from eosin.client.groups import EMPTY, GroupAdmin
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.streams_group_describe import DescribedGroup, TaskIds

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

SETTINGS = {
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.session.timeout.ms": "5000",
    "group.streams.min.session.timeout.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "500",
}
# A member of a streams group leaves its session to the broker.
BY_STREAMS_GROUP = ("group.protocol=streams", "session.timeout.ms=")
BY_CLASSIC = ("group.protocol=classic",)
TURN = 10
PAUSE_MS = 10
LINES = [f"{'ab'[number % 2]} word {number % 7}" for number in range(120)]
WORDS = Counter(word for line in LINES for word in line.split())
AWAY = -2
"""The epoch of a static member that has left for a while."""
KILLED_AFTER = 90
"""Counts that were told by then, of three for each line."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings=SETTINGS) as made:
        yield made.address


def group_of(address: str, group: str) -> DescribedGroup:
    """A streams group with the description of its topology."""

    async def asked() -> DescribedGroup:
        wire = await Wire.open(address)
        try:
            return await described(wire, group, with_description=True)
        finally:
            await wire.close()

    return asyncio.run(asked())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_words_are_counted_by_a_streams_group_though_a_member_is_killed(
    address: str, guarantee: str, tmp_path: Path
) -> None:
    scenario = Scenario(confluent.CLIENT, address)
    source, target = scenario.topic(2), scenario.topic()
    feed = scenario.producer()
    for number, line in enumerate(LINES):
        feed.send(source, line.encode(), partition=number % 2)
    feed.flush()
    settings = (*BY_STREAMS_GROUP, f"processing.guarantee={guarantee}")
    where = (f"count-{source}", address, source, target)
    with skipped_without():
        first, second = (
            streams.Application(
                streams.WITH_STREAMS_GROUPS, streams.WORD_COUNT, where, PAUSE_MS, tmp_path / name, settings
            )
            for name in ("first", "second")
        )
    reader = scenario.reader(target)
    counts: defaultdict[str, list[int]] = defaultdict(list)

    def read_until(done: Callable[[], bool], application: streams.Application) -> None:
        while not done():
            found = reader.read(1)
            assert found, application.log
            assert found[0].key is not None
            assert found[0].value is not None
            counts[found[0].key.decode()].append(int(found[0].value))

    with first:
        read_until(lambda: sum(map(len, counts.values())) > KILLED_AFTER, first)
        found = group_of(address, f"count-{source}")
        assert found.group_state == "Stable"
        assert found.topology_description is not None, "Kafka Streams has described what it computes"
        stores = [node.stores for each in found.topology_description.subtopologies for node in each.nodes]
        assert ("counts",) in stores
        first.kill()
    with second:
        read_until(lambda: all(count in counts[word] for word, count in WORDS.items()), second)
    if guarantee == "exactly_once_v2":
        assert {word: list(range(1, count + 1)) for word, count in WORDS.items()} == counts, second.log
    scenario.close()


@pytest.mark.full
def test_an_application_goes_over_to_a_streams_group_and_back_and_counts_nothing_twice(
    address: str, tmp_path: Path
) -> None:
    scenario = Scenario(confluent.CLIENT, address)
    source, target = scenario.topic(2), scenario.topic()
    feed, reader = scenario.producer(), scenario.reader(target)
    group = f"over-{source}"
    counts: defaultdict[str, list[int]] = defaultdict(list)
    for turn, settings in enumerate((BY_CLASSIC, BY_STREAMS_GROUP, BY_CLASSIC), 1):
        for number in range(TURN):
            feed.send(source, b"same words", partition=number % 2)
        feed.flush()
        with skipped_without():
            running = streams.Application(
                streams.WITH_STREAMS_GROUPS,
                streams.WORD_COUNT,
                (group, address, source, target),
                PAUSE_MS,
                tmp_path / str(turn),
                settings,
            )
        with running:
            while sum(map(len, counts.values())) < 2 * TURN * turn:
                found = reader.read(1)
                assert found, running.log
                assert found[0].value is not None
                counts[found[0].key.decode()].append(int(found[0].value))
        wait_until(lambda: asyncio.run(is_empty(address, group)))
    assert counts == {word: list(range(1, 3 * TURN + 1)) for word in ("same", "words")}
    scenario.close()


async def is_empty(address: str, group: str) -> bool:
    """True once its members have gone, which the end of their sessions takes: an application ends as if killed."""
    async with Client(address) as client:
        return (await GroupAdmin(client).describe(group)).state == EMPTY


@pytest.mark.long
def test_static_members_with_copies_count_exactly_once_though_one_of_them_and_the_broker_are_killed(
    tmp_path: Path,
) -> None:
    (tmp_path / "broker").mkdir()
    settings = {**SETTINGS, "group.streams.num.standby.replicas": "1"}
    with BrokerProcess(tmp_path / "broker", settings=settings) as broker:
        scenario = Scenario(confluent.CLIENT, broker.address)
        source, target = scenario.topic(2), scenario.topic()
        group = f"count-{source}"
        feed = scenario.producer()
        for number, line in enumerate(LINES):
            feed.send(source, line.encode(), partition=number % 2)
        feed.flush()
        where = (group, broker.address, source, target)

        def instance(name: str) -> streams.Application:
            own = (*BY_STREAMS_GROUP, "processing.guarantee=exactly_once_v2", f"group.instance.id={name}")
            return streams.Application(
                streams.WITH_STREAMS_GROUPS, streams.WORD_COUNT, where, 10 * PAUSE_MS, tmp_path / name, own
            )

        with skipped_without():
            first, second, again = instance("first"), instance("second"), instance("first")
        reader = scenario.reader(target)
        counts: defaultdict[str, list[int]] = defaultdict(list)

        def read_until(done: Callable[[], bool]) -> None:
            while not done():
                for each in reader.read(1):
                    assert each.key is not None
                    assert each.value is not None
                    counts[each.key.decode()].append(int(each.value))

        def told() -> int:
            return sum(map(len, counts.values()))

        def members() -> dict[str, tuple[int, tuple[TaskIds, ...]]]:
            """The epoch of each static member, by the name of its application, and its active tasks."""
            found = group_of(broker.address, group).members
            return {
                str(each.instance_id).rpartition("-")[0]: (each.member_epoch, each.assignment.active_tasks)
                for each in found
            }

        def tasks_of(name: str) -> int:
            return sum(len(some.partitions) for some in members().get(name, (0, ()))[1])

        with first, second:
            wait_until(
                lambda: tasks_of("first") == tasks_of("second") == 2, lambda: f"{members()} {first.log} {second.log}"
            )
            read_until(lambda: told() > KILLED_AFTER // 3)
            tasks = members()["first"][1]
            first.close()
            assert members()["first"] == (AWAY, tasks), "its place is kept"
            with again:
                wait_until(lambda: members()["first"][0] != AWAY, lambda: f"{members()} {again.log}")
                assert members()["first"][1] == tasks, "it is back where it was"
                read_until(lambda: told() > KILLED_AFTER)
                broker.kill()
                broker.start()
                read_until(lambda: told() > 2 * KILLED_AFTER)
                again.kill()
                read_until(lambda: all(count in counts[word] for word, count in WORDS.items()))
        assert {word: list(range(1, count + 1)) for word, count in WORDS.items()} == counts, second.log
        scenario.close()


def test_the_tools_of_apache_kafka_describe_reset_and_delete_a_streams_group(address: str) -> None:
    with skipped_without():
        tools, configs = KafkaScripts(address, OF_REFERENCE), KafkaScripts(address)
    group, topic = unique("counters"), unique("words")
    of_group = ("--group", group)

    def streams_groups(*arguments: str) -> Ran:
        return tools.run("kafka-streams-groups", *arguments)

    async def member(step: Callable[[Wire, StreamsMember], Awaitable[None]]) -> None:
        wire = await Wire.open(address)
        try:
            await step(wire, StreamsMember(wire, group, "m"))
        finally:
            await wire.close()

    async def joins(wire: Wire, counting_words: StreamsMember) -> None:
        await wire.create_topic(topic, partitions=2)
        await counting_words.join(counting(topic, group))
        await counting_words.has(4)
        raw = RawMember(wire, group, member_id="m", generation=counting_words.epoch)
        for number in (0, 1):
            assert await raw.commit(TopicPartition(topic, number), 0, version=9) == ErrorCode.NONE

    async def stays(wire: Wire, counting_words: StreamsMember) -> None:
        before = await described(wire, group)
        counting_words.epoch = before.members[0].member_epoch

        async def has_the_next_epoch() -> bool:
            answer = await counting_words.heartbeat(active_tasks=None, standby_tasks=None, warmup_tasks=None)
            assert answer.heartbeat_interval_ms == 600
            return answer.member_epoch == before.group_epoch + 1

        # Not with the first heartbeat, if the group was given tasks less than an assignment interval ago.
        await until(has_the_next_epoch, lambda: f"epoch {counting_words.epoch}, {before}")

    async def leaves(wire: Wire, counting_words: StreamsMember) -> None:
        assert await counting_words.leave() == ErrorCode.NONE

    entity = ("--entity-type", "groups", "--entity-name", group, "--alter", "--add-config")
    configs.run("kafka-configs", *entity, "streams.session.timeout.ms=60000")  # each run of a tool takes seconds
    asyncio.run(member(joins))
    assert group in streams_groups("--list").out.split()
    (state,) = streams_groups("--describe", *of_group, "--state", "--verbose").table
    assert (state["STATE"], state["ASSIGNOR"]) == ("Stable", "sticky")
    assert "ACTIVE: 0:[0,1]; 1:[0,1]" in streams_groups("--describe", *of_group, "--members", "--verbose").out
    reset = ("--reset-offsets", *of_group, "--to-earliest", "--input-topic", topic, "--execute")
    offsets = ("--delete-offsets", *of_group, "--input-topic", topic)
    assert "can only be reset if the group" in streams_groups(*reset).out
    assert "GroupSubscribedToTopicException" in streams_groups(*offsets).out
    assert "is not EMPTY" in streams_groups("--delete", *of_group).out
    configs.run("kafka-configs", *entity, "streams.heartbeat.interval.ms=600,streams.num.standby.replicas=1")
    asyncio.run(member(stays))
    asyncio.run(member(leaves))
    done = streams_groups(*reset)
    assert {row.get("NEW-OFFSET") for row in done.table} == {"0"}, done.out
    assert streams_groups(*offsets).out.count("Successful") == 2
    assert "was successful" in streams_groups("--delete", *of_group).out
    assert group not in streams_groups("--list").out.split()
