"""Assignors of consumer groups: every partition once, evenly, and no move that could be spared (groups.md 15.3)."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eosin.coordinator.groups.consumer.assignors import mixed_subscriptions, uniform
from eosin.coordinator.groups.consumer.assignors import range as by_range
from eosin.coordinator.groups.consumer.assignors.assignment import (
    Assign,
    Partitions,
    SubscribedMember,
    Target,
)
from eosin.coordinator.steps import InSteps
from eosin.protocol.names import TopicIdPartition, Uuid

Group = tuple[Sequence[SubscribedMember], Mapping[Uuid, int], Target]
"""What an assignor has to go by."""

IDS = [number.to_bytes(16, "big") for number in range(1, 8)]
NOTHING: Partitions = frozenset()


def member(name: str, *topics: int, instance: str | None = None) -> SubscribedMember:
    """A member that is subscribed to topics by their numbers."""
    return SubscribedMember(name, frozenset(IDS[each] for each in topics), instance)


def partitions(topic: int, *numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(IDS[topic], each) for each in numbers)


def counts(target: Target) -> list[int]:
    return sorted(map(len, target.values()))


# What holds of every target -------------------------------------------------------------------------------------------


def assert_every_partition_has_one_subscriber(group: Group, target: Target) -> None:
    members, topics, _ = group
    subscriptions = {each.member_id: each.topics for each in members}
    assert target.keys() == subscriptions.keys()
    owned = Counter(each for owner in target.values() for each in owner)
    subscribed = frozenset[Uuid]().union(*subscriptions.values())
    assert owned == Counter(
        TopicIdPartition(topic_id, number)
        for topic_id, count in topics.items()
        if topic_id in subscribed
        for number in range(count)
    )
    for name, owner in target.items():
        assert all(each.topic_id in subscriptions[name] for each in owner)


def assert_shares_differ_by_one_at_most(group: Group, target: Target) -> None:
    """For members with equal subscriptions."""
    assert max(counts(target)) - min(counts(target)) <= 1


def kept(group: Group, target: Target) -> int:
    """Number of partitions that stay with their owner."""
    return sum(len(owner & group[2].get(name, NOTHING)) for name, owner in target.items())


def assert_no_other_even_target_keeps_more(group: Group, target: Target) -> None:
    """For members with equal subscriptions: of all choices of those that have one more, none moves fewer."""
    members, topics, previous = group
    wanted = [
        sum(each.topic_id in topics and each.partition < topics[each.topic_id] for each in valid)
        for valid in (
            [each for each in previous.get(one.member_id, NOTHING) if each.topic_id in one.topics] for one in members
        )
    ]
    quota, remainder = divmod(sum(map(len, target.values())), len(members))
    most = max(
        sum(min(had, quota + (place in chosen)) for place, had in enumerate(wanted))
        for chosen in combinations(range(len(members)), remainder)
    )
    assert kept(group, target) == most


def assert_no_single_move_makes_it_more_even(group: Group, target: Target) -> None:
    """Of the members that are subscribed to a topic, none that owns a partition of it has two more than another."""
    for one, other in product(group[0], repeat=2):
        owned = target[one.member_id]
        if any(each.topic_id in other.topics for each in owned):
            assert len(owned) - len(target[other.member_id]) <= 1


def assert_rows_in_the_order_of_names(group: Group, target: Target) -> None:
    """The closed form of `range`: the partitions i·n/m to (i+1)·n/m, the larger shares first."""
    members, topics, _ = group
    for topic_id, count in topics.items():
        row = [each for each in members if topic_id in each.topics]
        row.sort(key=lambda each: (each.instance_id is None, each.instance_id or "", each.member_id))
        for place, one in enumerate(row):
            first = place * (count // len(row)) + min(place, count % len(row))
            last = first + count // len(row) + (place < count % len(row))
            mine = sorted(each.partition for each in target[one.member_id] if each.topic_id == topic_id)
            assert mine == list(range(first, last))


# Groups ---------------------------------------------------------------------------------------------------------------


def previous_targets(names: Iterable[str]) -> st.SearchStrategy[Target]:
    """A target of members of which some have gone, over topics of which some have gone, where each partition has one
    owner at most."""
    every = [TopicIdPartition(topic_id, number) for topic_id in IDS[:4] for number in range(6)]
    owners = st.sampled_from(["gone", None, *names])

    def by_name(chosen: list[str | None]) -> Target:
        made: dict[str, set[TopicIdPartition]] = {}
        for partition, owner in zip(every, chosen, strict=True):
            if owner is not None:
                made.setdefault(owner, set()).add(partition)
        return {name: frozenset(each) for name, each in made.items()}

    return st.lists(owners, min_size=len(every), max_size=len(every)).map(by_name)


@st.composite
def groups(draw: st.DrawFn, *, equal: bool, most_members: int = 6) -> Group:
    topics = draw(st.dictionaries(st.sampled_from(IDS[:4]), st.integers(0, 7), max_size=4))
    names = [f"m{number}" for number in range(draw(st.integers(1, most_members)))]
    subscription = st.frozensets(st.sampled_from(IDS[:4]))
    same = draw(subscription)
    members = [
        SubscribedMember(name, same if equal else draw(subscription), draw(st.sampled_from([None, f"i-{name[::-1]}"])))
        for name in names
    ]
    return members, topics, draw(previous_targets(names))


# Properties -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assign", [uniform.assign, by_range.assign], ids=["uniform", "range"])
@given(group=st.one_of(groups(equal=True), groups(equal=False)), seed=st.integers(0, 99))
def test_every_partition_of_a_subscribed_topic_has_one_owner_whatever_order_members_come_in(
    assign: Assign, group: Group, seed: int
) -> None:
    members, topics, previous = group
    target = assign(members, topics, previous)
    assert_every_partition_has_one_subscriber(group, target)
    mixed = list(members)
    random.Random(seed).shuffle(mixed)
    assert assign(mixed, dict(reversed(topics.items())), previous) == target


@given(group=groups(equal=True))
def test_equal_subscriptions_have_even_shares_and_keep_as_much_as_can_be_kept(group: Group) -> None:
    target = uniform.assign(*group)
    assert_shares_differ_by_one_at_most(group, target)
    assert_no_other_even_target_keeps_more(group, target)


@given(group=groups(equal=False))
def test_different_subscriptions_are_as_even_as_single_moves_make_them(group: Group) -> None:
    assert_no_single_move_makes_it_more_even(group, uniform.assign(*group))


@given(group=st.one_of(groups(equal=True), groups(equal=False)))
def test_a_second_run_moves_nothing_and_makes_no_new_sets(group: Group) -> None:
    members, topics, _ = group
    for assign in (uniform.assign, by_range.assign):
        first = assign(*group)
        second = assign(members, topics, first)
        assert second == first
        assert all(second[name] is owner for name, owner in first.items())


@given(group=groups(equal=False))
def test_range_is_its_closed_form(group: Group) -> None:
    assert_rows_in_the_order_of_names(group, by_range.assign(*group))


@given(group=groups(equal=False, most_members=4))
def test_range_gives_equal_numbers_of_topics_with_equal_subscribers_to_one_member(group: Group) -> None:
    members, topics, _ = group
    target = by_range.assign(*group)

    def subscribers(topic_id: Uuid) -> frozenset[str]:
        return frozenset(each.member_id for each in members if topic_id in each.topics)

    for one, other in combinations(topics, 2):
        if topics[one] == topics[other] and subscribers(one) == subscribers(other):
            for owner in target.values():
                first, second = ({each.partition for each in owner if each.topic_id == topic} for topic in (one, other))
                assert first == second


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_members_that_come_and_go_and_topics_that_grow_never_cost_a_move_that_could_be_spared(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"m{number}" for number in range(chance.randint(1, 6))]
    topics = {topic_id: chance.randint(1, 8) for topic_id in IDS[:3]}
    target: Target = {}
    for step in range(12):
        match chance.randrange(4):
            case 0:
                names.append(f"late-{step}")
            case 1 if len(names) > 1:
                names.remove(chance.choice(names))
            case 2:
                topics[chance.choice(list(topics))] += chance.randint(1, 4)
            case _:
                topics.pop(chance.choice(list(topics)), None) if len(topics) > 1 else None
        group = [SubscribedMember(name, frozenset(topics)) for name in names], dict(topics), target
        target = uniform.assign(*group)
        assert_every_partition_has_one_subscriber(group, target)
        assert_shares_differ_by_one_at_most(group, target)
        assert_no_other_even_target_keeps_more(group, target)


# Examples -------------------------------------------------------------------------------------------------------------


def test_a_group_without_members_has_no_target() -> None:
    for assign in (uniform.assign, by_range.assign):
        assert assign([], {IDS[0]: 3}, {"gone": partitions(0, 1)}) == {}


def test_members_beyond_the_partitions_have_none() -> None:
    members = [member(name, 0) for name in "abc"]
    for assign in (uniform.assign, by_range.assign):
        assert counts(assign(members, {IDS[0]: 2}, {})) == [0, 1, 1]


def test_one_that_leaves_moves_its_partitions_alone() -> None:
    members = [member(name, 0) for name in "abc"]
    first = uniform.assign(members, {IDS[0]: 6}, {})
    second = uniform.assign(members[1:], {IDS[0]: 6}, first)
    assert all(first[name] < second[name] for name in "bc")


def test_a_partition_that_two_members_had_stays_with_the_first() -> None:
    members = [member("a", 0), member("b", 0)]
    had = {"a": partitions(0, 0, 1), "b": partitions(0, 1, 2)}
    assert uniform.assign(members, {IDS[0]: 4}, had) == {"a": partitions(0, 0, 1), "b": partitions(0, 2, 3)}


def test_what_has_no_sense_in_a_previous_target_is_passed_over() -> None:
    had = {"a": partitions(0, -1, 0, 9) | partitions(5, 0), "gone": partitions(0, 1)}
    assert uniform.assign([member("a", 0)], {IDS[0]: 2}, had) == {"a": partitions(0, 0, 1)}


def test_static_members_come_first_by_their_instance() -> None:
    members = [member("a", 0), member("z", 0, instance="i2"), member("y", 0, instance="i3")]
    target = by_range.assign(members, {IDS[0]: 3}, {})
    assert target == {"z": partitions(0, 0), "y": partitions(0, 1), "a": partitions(0, 2)}


def test_a_static_member_that_comes_back_under_another_id_has_the_same_range() -> None:
    before = by_range.assign([member("a", 0, instance="i"), member("b", 0)], {IDS[0]: 4}, {})
    after = by_range.assign([member("c", 0, instance="i"), member("b", 0)], {IDS[0]: 4}, before)
    assert (after["c"], after["b"]) == (before["a"], before["b"])


def test_loads_even_out_across_topics_that_share_no_member() -> None:
    # b and c have a partition of the middle topic in common with a and d, and pass load on from the one to the other.
    members = [member("a", 0), member("b", 0, 1), member("c", 1, 2), member("d", 2)]
    had = {"a": partitions(0, *range(7)), "b": partitions(1, 0), "c": partitions(1, 1)}
    target = uniform.assign(members, {IDS[0]: 7, IDS[1]: 2, IDS[2]: 1}, had)
    assert [len(target[name]) for name in "abcd"] == [4, 3, 2, 1]


def test_a_long_chain_of_topics_ends_after_the_bounded_number_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Counter[Uuid]()
    evened_out = mixed_subscriptions._even_out

    def counted(topic_id: Uuid, *rest: object) -> InSteps[bool]:
        rounds[topic_id] += 1
        yield from evened_out(topic_id, *rest)  # type: ignore[arg-type]
        return True

    monkeypatch.setattr(mixed_subscriptions, "_even_out", counted)
    uniform.assign([member("a", 0, 1), member("b", 0)], {IDS[0]: 3, IDS[1]: 3}, {})
    assert set(rounds.values()) == {mixed_subscriptions.MOST_ROUNDS}


# Mistakes that the properties find ------------------------------------------------------------------------------------


def forgets(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Target:
    """Begins anew each time."""
    return uniform.assign(members, topics, {})


def loses_the_last(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Target:
    """Counts partitions from 1."""
    return uniform.assign(members, {topic_id: max(count - 1, 0) for topic_id, count in topics.items()}, previous)


def keeps_everything(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Target:
    """Never releases a partition for a member that has come."""
    target = dict(uniform.assign(members, topics, previous))
    for one in members:
        had = {each for each in previous.get(one.member_id, ()) if each in frozenset().union(*target.values())}
        mine = {each for each in had if each.topic_id in one.topics}
        target = {name: owner - mine for name, owner in target.items()}
        target[one.member_id] |= mine
    return target


def gives_extras_to_the_first(
    members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target
) -> Target:
    """Has the first members have one more, whoever had it before."""
    made = uniform.assign(members, topics, {})
    quota = min(map(len, made.values()))
    order = sorted(made, key=lambda name: -len(made[name]))
    free = [each for owner in made.values() for each in sorted(owner)]
    target: dict[str, Partitions] = {}
    for name in order:
        size = quota + (len(made[name]) > quota)
        mine = [each for each in sorted(previous.get(name, ())) if each in free][:size]
        target[name] = frozenset(mine)
        free = [each for each in free if each not in mine]
    for name in order:
        size = quota + (len(made[name]) > quota)
        more, free = free[: size - len(target[name])], free[size - len(target[name]) :]
        target[name] |= frozenset(more)
    return target


def shares_one(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Target:
    """Lets two members have a partition."""
    target = dict(uniform.assign(members, topics, previous))
    first, *others = sorted(target)
    for other in others:
        target[other] |= frozenset(sorted(target[first])[:1])
    return target


def checks_of_uniform(group: Group, target: Target) -> None:
    assert_every_partition_has_one_subscriber(group, target)
    assert_shares_differ_by_one_at_most(group, target)
    assert_no_other_even_target_keeps_more(group, target)


@pytest.mark.parametrize("mistake", [forgets, loses_the_last, keeps_everything, gives_extras_to_the_first, shares_one])
def test_a_planted_mistake_is_found(mistake: Assign) -> None:
    assert finds(mistake, checks_of_uniform), "no group shows the mistake"
    assert not finds(uniform.assign, checks_of_uniform)


def test_a_planted_mistake_about_different_subscriptions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not finds(uniform.assign, assert_no_single_move_makes_it_more_even, equal=False)
    monkeypatch.setattr(mixed_subscriptions, "MOST_ROUNDS", 0)
    assert finds(uniform.assign, assert_no_single_move_makes_it_more_even, equal=False)


def test_a_planted_mistake_about_ranges_is_found() -> None:
    assert not finds(by_range.assign, assert_rows_in_the_order_of_names, equal=False)
    assert finds(uniform.assign, assert_rows_in_the_order_of_names, equal=False)


def finds(assign: Assign, check: Callable[[Group, Target], None], *, equal: bool = True) -> bool:
    """True if one of a hundred small groups shows that an assignor is not as it shall be."""
    for seed in range(100):
        chance = random.Random(seed)
        topics = {topic_id: chance.randint(1, 4) for topic_id in IDS[: chance.randint(1, 2)]}
        every = frozenset(topics)
        subscriptions = [every, every] if equal else [every, every - {chance.choice(list(topics))}]
        members = [SubscribedMember(f"m{number}", chance.choice(subscriptions)) for number in range(2 + seed % 3)]
        owners = ["gone", *(each.member_id for each in members)]
        previous: dict[str, Partitions] = dict.fromkeys(owners, NOTHING)
        for topic_id, count in topics.items():
            for number in range(count):
                previous[chance.choice(owners)] |= {TopicIdPartition(topic_id, number)}
        group = members, topics, previous
        try:
            check(group, assign(*group))
        except AssertionError:
            return True
    return False


@given(group=groups(equal=True, most_members=3))
@settings(max_examples=25)
def test_of_all_even_targets_of_a_small_group_none_keeps_more(group: Group) -> None:
    """By trying all of them, on no more partitions than that allows."""
    members, topics, previous = group
    every = [
        TopicIdPartition(topic_id, number)
        for topic_id in members[0].topics & topics.keys()
        for number in range(topics[topic_id])
    ]
    assume(len(every) <= 6)
    names = [each.member_id for each in members]
    most = 0
    for owners in product(names, repeat=len(every)):
        shares = [owners.count(name) for name in names]
        if max(shares) - min(shares) <= 1:
            had = zip(owners, every, strict=True)
            most = max(most, sum(each in previous.get(owner, NOTHING) for owner, each in had))
    assert kept(group, uniform.assign(*group)) == most
