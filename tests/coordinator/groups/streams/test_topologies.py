"""Topologies of streams groups: what is wrong with them, and the tasks and topics that follow (streams-groups.md 3)."""

import pytest

from eosin.coordinator.groups.streams.topology.configuration import (
    ConfiguredSubtopology,
    InvalidTopology,
    TopologyStatus,
    configured,
)
from eosin.coordinator.groups.streams.topology.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
    fault_of,
)


def internal(name: str, partitions: int = 0) -> InternalTopic:
    return InternalTopic(name, partitions, -1, ())


def sub(
    name: str,
    *sources: str,
    reads: tuple[InternalTopic, ...] = (),
    writes: tuple[str, ...] = (),
    changelogs: tuple[str, ...] = (),
    joined: CopartitionGroup | None = None,
) -> Subtopology:
    groups = () if joined is None else (joined,)
    return Subtopology(name, sources, (), tuple(map(internal, changelogs)), writes, reads, groups)


def topology(*subtopologies: Subtopology) -> Topology:
    return Topology(0, subtopologies)


COUNTING = topology(
    sub("0", "words", writes=("by-word",)), sub("1", reads=(internal("by-word"),), changelogs=("counts",))
)


def test_a_repartition_has_the_partitions_of_what_flows_in_and_a_changelog_those_of_its_tasks() -> None:
    found = configured(COUNTING, {"words": 3})
    assert found.status is TopologyStatus.MISSING_INTERNAL_TOPICS
    assert found.missing == (internal("by-word", 3), internal("counts", 3))
    assert found.subtopologies == {}
    ready = configured(COUNTING, {"words": 3, "by-word": 3, "counts": 3})
    assert ready.is_ready
    assert ready.subtopologies == {
        "0": ConfiguredSubtopology(3, is_stateful=False, inputs={"words": 3}),
        "1": ConfiguredSubtopology(3, is_stateful=True, inputs={"by-word": 3}),
    }


def test_a_missing_source_topic_is_named() -> None:
    found = configured(COUNTING, {"by-word": 3})
    assert (found.status, found.detail) == (TopologyStatus.MISSING_SOURCE_TOPICS, "Source topics words are missing.")


def test_an_internal_topic_of_another_size_is_named_with_both_sizes() -> None:
    found = configured(COUNTING, {"words": 3, "by-word": 4})
    assert found.status is TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert "by-word (4 instead of 3)" in found.detail


def test_repartitions_are_counted_one_after_the_other() -> None:
    chain = topology(
        sub("2", reads=(internal("b"),)),
        sub("1", reads=(internal("a"),), writes=("b",)),
        sub("0", "x", "y", writes=("a",)),
    )
    assert {each.name: each.partitions for each in configured(chain, {"x": 2, "y": 5}).missing} == {"a": 5, "b": 5}


def test_a_count_that_the_topology_says_holds() -> None:
    fixed = topology(sub("0", "x", writes=("a",)), sub("1", reads=(internal("a", 7),)))
    assert configured(fixed, {"x": 2}).missing == (internal("a", 7),)


JOINED = CopartitionGroup((0,), (), (0,))


def test_a_repartition_that_is_joined_with_a_topic_has_its_partitions() -> None:
    joined = topology(sub("0", "x", writes=("a",)), sub("1", "big", reads=(internal("a"),), joined=JOINED))
    assert configured(joined, {"x": 2, "big": 8}).missing == (internal("a", 8),)


@pytest.mark.parametrize("repartition", [(), (internal("a", 3),)])
def test_topics_that_are_joined_need_one_number_of_partitions(repartition: tuple[InternalTopic, ...]) -> None:
    group = CopartitionGroup((0,) if repartition else (0, 1), (), (0,) if repartition else ())
    joined = topology(sub("0", "x", writes=("a",)), sub("1", "big", "x", reads=repartition, joined=group))
    found = configured(joined, {"x": 2, "big": 8})
    assert found.status is TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert "big (8)" in found.detail


def test_repartitions_that_are_joined_take_the_highest_number() -> None:
    both = CopartitionGroup((), (), (0, 1))
    joined = topology(
        sub("0", "x", writes=("a",)),
        sub("1", "y", writes=("b",)),
        sub("2", reads=(internal("a"), internal("b")), joined=both),
    )
    assert {each.partitions for each in configured(joined, {"x": 2, "y": 5}).missing} == {5}


def test_a_stream_that_is_joined_with_its_own_repartition_has_the_partitions_of_its_source() -> None:
    itself = topology(sub("0", "x", reads=(internal("a"),), writes=("a",), joined=JOINED))
    assert fault_of(itself) is None
    assert configured(itself, {"x": 3}).missing == (internal("a", 3),)


def test_the_highest_number_goes_around_a_loop() -> None:
    around = topology(
        sub("0", "x", reads=(internal("c"),), writes=("a",)),
        sub("1", reads=(internal("a"),), writes=("b",)),
        sub("2", "y", reads=(internal("b"),), writes=("c",)),
    )
    assert fault_of(around) is None
    for counts in ({"x": 2, "y": 5}, {"x": 5, "y": 2}):
        assert {each.partitions for each in configured(around, counts).missing} == {5}


LOOP = topology(
    sub("0", reads=(internal("b"),), writes=("a",)), sub("1", reads=(internal("a"),), writes=("b",)), sub("2", "x")
)
FAULTS = {
    "a loop": (LOOP, "depend on each other: the topology has a loop"),
    "nobody writes": (topology(sub("0", "x", reads=(internal("a"),))), "nothing writes to a"),
    "no input": (topology(sub("0")), "subtopology 0 reads no topic"),
    "a sized changelog": (
        topology(sub("0", "x")._replace(changelog_topics=(internal("c", 2),))),
        "changelog c must have the partitions of its tasks, and says 2",
    ),
    "a copartition group": (
        topology(sub("0", "x", joined=CopartitionGroup((1,), (), ()))),
        "names a topic that it does not read",
    ),
    "two of one id": (topology(sub("0", "x"), sub("0", "y")), "two subtopologies have one id"),
}


@pytest.mark.parametrize(("bad", "sentence"), FAULTS.values(), ids=FAULTS)
def test_a_topology_that_can_never_run_is_told_at_once(bad: Topology, sentence: str) -> None:
    assert sentence in str(fault_of(bad))


@pytest.mark.parametrize("bad", ["a loop", "nobody writes", "no input"])
def test_a_topology_that_an_older_broker_took_is_refused_when_its_topics_are_there(bad: str) -> None:
    with pytest.raises(InvalidTopology):
        configured(FAULTS[bad][0], {"x": 2})


def test_a_good_topology_has_no_fault() -> None:
    assert fault_of(COUNTING) is None
    assert COUNTING.topics == {"words", "by-word", "counts"}
