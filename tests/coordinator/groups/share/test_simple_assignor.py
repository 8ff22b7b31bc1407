"""The assignor `simple` of share groups: every partition, evenly, and few moves (share-groups.md 5)."""

from collections import Counter
from collections.abc import Sequence
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, SubscribedMember, Target
from eosin.coordinator.groups.share.assignors.simple import Assignable, assign
from eosin.protocol.names import TopicIdPartition

IDS = [number.to_bytes(16, "big") for number in range(1, 4)]


def member(name: str, *topics: int) -> SubscribedMember:
    """A member that is subscribed to topics by their numbers."""
    return SubscribedMember(name, frozenset(IDS[each] for each in topics))


def members(count: int) -> list[SubscribedMember]:
    return [member(f"m{number:02}", 0, 1, 2) for number in range(count)]


def partitions(topic: int, *numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(IDS[topic], each) for each in numbers)


def topics(*counts: int) -> Assignable:
    return {IDS[number]: range(count) for number, count in enumerate(counts) if count}


def moved(before: Target, after: Target) -> int:
    """Number of partitions that members have lost."""
    return sum(len(had - after.get(name, frozenset())) for name, had in before.items())


def test_one_member_has_everything_and_nobody_has_something_where_there_is_nothing() -> None:
    assert assign(members(1), topics(2, 1), {}) == {"m00": partitions(0, 0, 1) | partitions(1, 0)}
    assert assign(members(2), {}, {}) == {"m00": frozenset(), "m01": frozenset()}
    assert assign([], topics(2), {}) == {}


def test_only_the_partitions_that_are_named_are_given_away() -> None:
    assert assign(members(1), {IDS[0]: (3, 5)}, {"m00": partitions(0, 1, 3)}) == {"m00": partitions(0, 3, 5)}


def test_members_beyond_the_number_of_partitions_share_them() -> None:
    target = assign(members(5), topics(2), {})
    assert sorted(map(len, target.values())) == [1, 1, 1, 1, 2]
    assert Counter(each for owned in target.values() for each in owned) == dict.fromkeys(partitions(0, 0, 1), 3)


def test_a_member_that_joins_takes_no_more_than_its_part() -> None:
    before = assign(members(2), topics(6), {})
    after = assign(members(3), topics(6), before)
    assert moved(before, after) == 2


def test_a_member_gets_another_partition_although_only_such_as_it_has_are_free() -> None:
    before = {"m00": partitions(0, 1), "m01": partitions(0, 0), "m02": partitions(0, 0)}
    target = assign(members(3), topics(2), before)
    assert target["m00"] == partitions(0, 0, 1)
    assert Counter(each for owned in target.values() for each in owned) == dict.fromkeys(partitions(0, 0, 1), 2)


def test_members_of_different_topics_share_each_topic_by_itself() -> None:
    target = assign([member("a", 0), member("b", 0, 1), member("c", 1)], topics(2, 1), {})
    assert {name: len(owned & partitions(0, 0, 1)) for name, owned in target.items()} == {"a": 1, "b": 1, "c": 0}
    assert target["b"] & partitions(1, 0) == target["c"] == partitions(1, 0)


def test_a_topic_that_a_member_has_left_is_not_kept() -> None:
    target = assign([member("a", 1)], topics(1, 1), {"a": partitions(0, 0)})
    assert target == {"a": partitions(1, 0)}


COUNTS = st.lists(st.integers(0, 4), min_size=1, max_size=3)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), COUNTS), min_size=1, max_size=4))
def test_members_of_the_same_topics_have_equal_parts_whatever_was_before(
    steps: Sequence[tuple[int, Sequence[int]]],
) -> None:
    target: Target = {}
    for count, counts in steps:
        target = assign(members(count), topics(*counts), target)
        sizes = [len(each) for each in target.values()]
        assert max(sizes) - min(sizes) <= 1
        held = Counter(each for owned in target.values() for each in owned)
        total = sum(counts)
        assert len(held) == total
        assert set(held.values()) <= {ceil(count / total) if total else 0}
        assert assign(members(count)[::-1], topics(*counts), target) == target


SUBSCRIPTIONS = st.lists(st.sets(st.integers(0, 2), max_size=3), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(SUBSCRIPTIONS, COUNTS), min_size=1, max_size=4))
def test_each_topic_is_shared_equally_by_its_subscribers(
    steps: Sequence[tuple[Sequence[set[int]], Sequence[int]]],
) -> None:
    target: Target = {}
    for subscriptions, counts in steps:
        some = [member(f"m{number}", *subscribed) for number, subscribed in enumerate(subscriptions)]
        target = assign(some, topics(*counts), target)
        is_uniform = len({each.topics for each in some}) == 1
        for number, count in enumerate(counts):
            subscribers = [each.member_id for each in some if IDS[number] in each.topics]
            held = Counter(each for owned in target.values() for each in owned if each.topic_id == IDS[number])
            assert all(
                IDS[number] not in {each.topic_id for each in target[other]} for other in target.keys() - subscribers
            )
            assert len(held) == (count if subscribers else 0)
            if subscribers and count and not is_uniform:
                assert set(held.values()) == {ceil(len(subscribers) / count)}
                sizes = [len([e for e in target[name] if e.topic_id == IDS[number]]) for name in subscribers]
                assert max(sizes) - min(sizes) <= 1
        assert assign(some, topics(*counts), target) == target
