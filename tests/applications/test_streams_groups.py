"""Kafka Streams with group.protocol=streams (KIP-1071) counts words: through a repartition and a store, which the
broker makes topics for, at least once and exactly once; and kill -9 of a member changes no count."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from real_clients import confluent, streams
from real_clients.tools import KafkaScripts
from scenario import Scenario
from toolchains import skipped_without
from waiting import wait_until
from wire import Wire, unique
from wire_streams_group import StreamsMember, counting, described

from eosin.client.client import Client
from eosin.client.groups import EMPTY, GroupAdmin
from eosin.protocol.errors import ErrorCode

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
KILLED_AFTER = 90
"""Counts that were told by then, of three for each line."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings=SETTINGS) as made:
        yield made.address


async def state_of(address: str, group: str) -> str:
    """The state of a streams group."""
    wire = await Wire.open(address)
    try:
        return str((await described(wire, group)).group_state)
    finally:
        await wire.close()


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
        assert asyncio.run(state_of(address, f"count-{source}")) == "Stable"
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


def test_the_tool_of_apache_kafka_lists_a_streams_group_and_deletes_it(address: str) -> None:
    with skipped_without():
        tools = KafkaScripts(address)
    group, topic = unique("counters"), unique("words")

    async def member(*, joins: bool) -> None:
        wire = await Wire.open(address)
        counting_words = StreamsMember(wire, group, "m")
        if joins:
            await wire.create_topic(topic, partitions=2)
            await counting_words.join(counting(topic, group))
            await counting_words.has(4)
        else:
            assert await counting_words.leave() == ErrorCode.NONE
        await wire.close()

    asyncio.run(member(joins=True))
    assert group in tools.run("kafka-streams-groups", "--list").out.split()
    asyncio.run(member(joins=False))
    tools.run("kafka-streams-groups", "--delete", "--group", group)
    assert group not in tools.run("kafka-streams-groups", "--list").out.split()
