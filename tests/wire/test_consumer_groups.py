"""Groups of the consumer protocol (KIP-848) on the wire: heartbeats, what refuses them, and how members come to their
partitions (consumer-groups.md 2 to 9)."""

from typing import Any, Final

import pytest
from waiting import until
from wire import Wire, better_than_kafka, unique
from wire_consumer_group import ConsumerMember, described, in_peace, places, said
from wire_group import RawMember

from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.consumer_group_heartbeat import TopicPartitions
from eosin.protocol.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity

pytestmark = pytest.mark.virtual

NONE: Final = ErrorCode.NONE
INVALID: Final = ErrorCode.INVALID_REQUEST
FENCED: Final = ErrorCode.FENCED_MEMBER_EPOCH
UNKNOWN_MEMBER: Final = ErrorCode.UNKNOWN_MEMBER_ID
NOT_FOUND: Final = ErrorCode.GROUP_ID_NOT_FOUND


@pytest.fixture
def bootstrap(consumer_groups: str) -> str:
    return consumer_groups


async def refusal(member: ConsumerMember, version: int = 1, **fields: Any) -> ErrorCode:
    """The error of a heartbeat, which has a sentence beside it."""
    answer = await member.heartbeat(version=version, **fields)
    assert (answer.assignment, answer.member_epoch) == (None, 0)
    assert answer.error_message, ErrorCode(answer.error_code)
    return ErrorCode(answer.error_code)


async def refused_join(member: ConsumerMember, *topics: str, **fields: Any) -> ErrorCode:
    """The same of a first heartbeat."""
    answer = await member.join(*topics, **fields)
    assert answer.error_message, ErrorCode(answer.error_code)
    return ErrorCode(answer.error_code)


# --- joining, staying, leaving


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_joins_stays_and_leaves(wire: Wire, group: str, version: int) -> None:
    topic = await wire.topic(3)
    chosen = unique("member") if version else ""
    member = await ConsumerMember(wire, group, chosen).joined(topic, partitions=3, version=version)
    assert member.member_id == chosen if version else member.member_id
    assert member.assigned == {(wire.topic_id(topic), each) for each in range(3)}
    present = member.epoch
    assert present >= 2
    stays = await member.heartbeat(version=version)
    assert (stays.error_code, stays.member_epoch, stays.assignment) == (NONE, present, None)
    assert stays.heartbeat_interval_ms > 0
    left = await member.heartbeat(version=version, member_epoch=-1)
    assert (left.error_code, left.member_id, left.member_epoch) == (NONE, member.member_id, -1)
    assert left.assignment is None
    assert await refusal(member, version, member_epoch=present) == UNKNOWN_MEMBER
    assert (await described(wire, group)).group_state == "Empty"


async def test_a_full_heartbeat_is_told_the_assignment(wire: Wire, group: str) -> None:
    topic = await wire.topic(2)
    member = await ConsumerMember(wire, group).joined(topic, partitions=2)
    full = {
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": (topic,),
        "topic_partitions": said(member.assigned),
    }
    assert places(await member.heartbeat(**full)) == member.assigned
    for left_out, nothing in (
        ("rebalance_timeout_ms", -1),
        ("subscribed_topic_names", None),
        ("topic_partitions", None),
    ):
        assert (await member.heartbeat(**{**full, left_out: nothing})).assignment is None, left_out


async def test_a_member_without_topics_has_none_and_a_topic_that_is_not_there_is_waited_for(
    wire: Wire, group: str
) -> None:
    member = ConsumerMember(wire, group)
    answer = await member.join()
    assert (answer.error_code, answer.member_epoch, places(answer)) == (NONE, 1, frozenset())
    later = unique("topic")
    answer = await member.heartbeat(subscribed_topic_names=(later,), topic_partitions=())
    assert (answer.error_code, answer.member_epoch, places(answer)) == (NONE, 2, frozenset())
    await wire.create_topic(later, partitions=2)
    await until(lambda: _has(member, 2))
    assert member.epoch == 3


async def _has(member: ConsumerMember, partitions: int) -> bool:
    await member.confirm()
    return len(member.assigned) == partitions


async def test_a_topic_that_grows_begins_an_epoch(wire: Wire, group: str) -> None:
    topic = await wire.topic(1)
    member = await ConsumerMember(wire, group).joined(topic)
    before = member.epoch
    more = CreatePartitionsRequest((CreatePartitionsTopic(topic, 4),), timeout_ms=30_000)
    assert (await wire.ask(more, 3)).results[0].error_code == NONE
    await until(lambda: _has(member, 4))
    assert member.epoch == before + 1


async def test_other_topics_begin_an_epoch_and_what_is_left_is_revoked_first(wire: Wire, group: str) -> None:
    old, new = await wire.topic(2), await wire.topic(3)
    member = await ConsumerMember(wire, group).joined(old, partitions=2)
    before, had = member.epoch, member.assigned
    answer = await member.heartbeat(subscribed_topic_names=(new,), topic_partitions=said(had))
    assert (answer.error_code, answer.member_epoch, places(answer)) == (NONE, before, frozenset())
    assert (await described(wire, group)).group_state == "Reconciling"
    waits = await member.heartbeat(topic_partitions=said(had))
    assert (waits.error_code, waits.member_epoch, member.assigned) == (NONE, before, frozenset())
    await member.confirm()
    assert member.epoch > before
    assert {topic_id for topic_id, _ in member.assigned} == {wire.topic_id(new)}


# --- regular expressions


@pytest.mark.parametrize("named", [False, True])
async def test_topics_are_subscribed_to_by_a_regular_expression(wire: Wire, group: str, named: bool) -> None:
    prefix = unique("regex")
    first = await wire.create_topic(f"{prefix}-a", partitions=2)
    await wire.create_topic(f"{prefix}-b")
    await wire.create_topic(f"not-{prefix}-b")
    names = (await wire.topic(4),) if named else None
    member = ConsumerMember(wire, group)
    answer = await member.join(subscribed_topic_names=names, subscribed_topic_regex=f"{prefix}-.*")
    assert answer.error_code == NONE
    await until(lambda: _has(member, 7 if named else 3))
    (told,) = (await described(wire, group)).members
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == (names or (), f"{prefix}-.*")
    before = member.epoch
    answer = await member.heartbeat(subscribed_topic_regex="", subscribed_topic_names=(first,))
    assert answer.error_code == NONE
    await in_peace(member)
    assert member.epoch > before
    assert {topic_id for topic_id, _ in member.assigned} == {wire.topic_id(first)}
    (told,) = (await described(wire, group)).members
    assert not told.subscribed_topic_regex


async def test_a_regular_expression_that_is_none_is_refused_and_changes_nothing(wire: Wire, group: str) -> None:
    member = ConsumerMember(wire, group)
    code = ErrorCode.INVALID_REGULAR_EXPRESSION
    assert await refused_join(member, subscribed_topic_names=None, subscribed_topic_regex="(") == code
    assert (await described(wire, group)).error_code == NOT_FOUND
    await member.joined(await wire.topic())
    assert await refusal(member, subscribed_topic_regex="[a") == code
    (told,) = (await described(wire, group)).members
    assert (told.member_epoch, told.subscribed_topic_regex or "") == (member.epoch, "")


# --- requests that are of no use

JOINING: Final[dict[str, Any]] = {
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ("any",),
    "topic_partitions": (),
}
PLACE: Final = TopicPartitions(b"?" * 16, (0,))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(fields, id=name)
        for name, fields in {
            "no member id": {**JOINING, "member_id": ""},
            "a blank member id": {**JOINING, "member_id": "  "},
            "no member id of one that stays": {"member_id": "", "member_epoch": 5},
            "no member id of one that leaves": {"member_id": "", "member_epoch": -1},
            "no group": {**JOINING, "group_id": ""},
            "a blank group": {**JOINING, "group_id": " "},
            "a blank instance": {**JOINING, "instance_id": " "},
            "a blank rack": {**JOINING, "rack_id": ""},
            "no rebalance timeout": {**JOINING, "rebalance_timeout_ms": -1},
            "no partitions": {**JOINING, "topic_partitions": None},
            "partitions at first": {**JOINING, "topic_partitions": (PLACE,)},
            "no subscription": {**JOINING, "subscribed_topic_names": None},
            "away without an instance": {"member_id": "m", "member_epoch": -2},
            "an epoch below all": {"member_id": "m", "member_epoch": -3},
        }.items()
    ],
)
async def test_a_malformed_heartbeat_is_refused_and_makes_no_group(
    wire: Wire, group: str, fields: dict[str, Any]
) -> None:
    assert await refusal(ConsumerMember(wire, group), **{"group_id": group, **fields}) == INVALID
    assert (await described(wire, group)).error_code == NOT_FOUND


async def test_version_0_makes_an_id_for_a_member_that_joins_alone(wire: Wire, group: str) -> None:
    for epoch in (5, -1):
        assert await refusal(ConsumerMember(wire, group, ""), 0, member_epoch=epoch) == INVALID
    known = await ConsumerMember(wire, group, "mine").joined(await wire.topic(), version=0)
    assert known.member_id == "mine"


@better_than_kafka("Apache Kafka takes whatever a client fills its groups with")
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(fields, id=name)
        for name, fields in {
            "no time to revoke": {**JOINING, "rebalance_timeout_ms": 0},
            "less than no time to revoke": {**JOINING, "rebalance_timeout_ms": -5},
            "a partition twice": {"member_id": "m", "member_epoch": 1, "topic_partitions": (PLACE, PLACE)},
            "a partition below 0": {
                "member_id": "m",
                "member_epoch": 1,
                "topic_partitions": (TopicPartitions(b"?" * 16, (-1,)),),
            },
            "a member id of 257 characters": {**JOINING, "member_id": "x" * 257},
            "a regular expression of 4097 characters": {**JOINING, "subscribed_topic_regex": "x" * 4097},
        }.items()
    ],
)
async def test_a_heartbeat_that_nobody_means_is_refused(wire: Wire, group: str, fields: dict[str, Any]) -> None:
    assert await refusal(ConsumerMember(wire, group), **fields) == INVALID


@pytest.mark.parametrize("version", [0, 1])
async def test_an_assignor_that_is_not_there_is_refused(wire: Wire, group: str, version: int) -> None:
    member, topic = ConsumerMember(wire, group), await wire.topic(2)
    wrong = {"version": version, "server_assignor": "mine"}
    assert await refused_join(member, topic, **wrong) == ErrorCode.UNSUPPORTED_ASSIGNOR
    for assignor in ("range", "uniform"):
        member = await ConsumerMember(wire, group).joined(
            topic, partitions=2, version=version, server_assignor=assignor
        )
        assert (await described(wire, group)).assignor_name == assignor
        await member.leave()


async def test_an_assignor_that_prevails_by_new_votes_begins_an_epoch(wire: Wire, group: str) -> None:
    """Members without topics change nothing else."""
    first, *others = (ConsumerMember(wire, group, name) for name in "abcd")
    assert (await first.join(server_assignor="range")).member_epoch == 2
    for other, assignor in zip(others, ("range", "uniform", None), strict=True):
        assert (await other.join(server_assignor=assignor)).member_epoch == 2
    assert (await described(wire, group)).assignor_name == "range"
    assert (await first.heartbeat(server_assignor="uniform")).member_epoch == 3
    assert (await described(wire, group)).assignor_name == "uniform"


# --- epochs


async def test_an_epoch_ahead_or_behind_is_fenced_and_the_member_may_join_again(wire: Wire, group: str) -> None:
    topic = await wire.topic(2)
    member = await ConsumerMember(wire, group).joined(topic, partitions=2)
    present, has = member.epoch, said(member.assigned)
    for epoch, owned in ((present + 1, has), (present + 1, None), (present - 1, None), (present - 2, has)):
        if epoch > 0:
            assert await refusal(member, member_epoch=epoch, topic_partitions=owned) == FENCED
    again = await member.join(topic)
    assert (again.error_code, again.member_epoch, len(places(again))) == (NONE, present, 2)


async def test_a_repeated_heartbeat_whose_answer_was_lost_is_good(wire: Wire, group: str) -> None:
    topic = await wire.topic(2)
    member = await ConsumerMember(wire, group).joined(topic, partitions=2)
    before, has = member.epoch, member.assigned
    other = ConsumerMember(wire, group)
    await other.join(topic)
    await member.confirm()  # is told to revoke one
    kept = member.assigned
    assert kept < has
    for _ in range(2):
        answer = await member.heartbeat(member_epoch=before, topic_partitions=said(kept))
        assert (answer.error_code, answer.member_epoch) == (NONE, before + 1)
    for owned in (None, said(has), said(has - kept)):
        assert await refusal(member, member_epoch=before, topic_partitions=owned) == FENCED


@better_than_kafka("Apache Kafka tells a member that has missed its partitions nothing, unless it says everything anew")
async def test_a_repeated_heartbeat_is_told_what_the_lost_answer_said(wire: Wire, group: str) -> None:
    topic = await wire.topic(2)
    leaves = await ConsumerMember(wire, group).joined(topic, partitions=2)
    member = ConsumerMember(wire, group)
    await member.join(topic)
    await in_peace(leaves, member)
    before, has = member.epoch, member.assigned
    await leaves.leave()
    for _ in range(2):
        answer = await member.heartbeat(member_epoch=before, topic_partitions=said(has))
        assert (answer.error_code, len(places(answer))) == (NONE, 2)


async def test_a_heartbeat_that_was_overtaken_confirms_nothing(wire: Wire, other: Wire, group: str) -> None:
    topic = await wire.topic(2)
    member = await ConsumerMember(wire, group).joined(topic, partitions=2)
    heir = ConsumerMember(other, group)
    await heir.join(topic)
    await in_peace(member, heir)
    present = member.epoch
    await member.heartbeat(subscribed_topic_names=())  # it is to revoke what it has
    assert (member.epoch, member.assigned) == (present, frozenset())
    assert await refusal(member, member_epoch=present - 1, topic_partitions=()) == FENCED
    assert (await described(wire, group)).group_state == "Reconciling"


async def test_a_member_that_is_unknown_is_to_join_again(wire: Wire, group: str) -> None:
    await ConsumerMember(wire, group).joined(await wire.topic())
    stranger = ConsumerMember(wire, group)
    for epoch in (5, -1):
        assert await refusal(stranger, member_epoch=epoch) == UNKNOWN_MEMBER


@pytest.mark.parametrize("epoch", [-1, -2])
async def test_nobody_leaves_a_group_that_is_not_there(wire: Wire, group: str, epoch: int) -> None:
    assert await refusal(ConsumerMember(wire, group, instance_id="a"), member_epoch=epoch) == NOT_FOUND


@better_than_kafka("Apache Kafka says GROUP_ID_NOT_FOUND, which is fatal to clients")
async def test_a_member_whose_group_is_gone_is_to_join_again(wire: Wire, group: str) -> None:
    assert await refusal(ConsumerMember(wire, group), member_epoch=5) == UNKNOWN_MEMBER


# --- static members


async def test_an_instance_that_is_taken_is_not_released(wire: Wire, group: str) -> None:
    topic = await wire.topic()
    holder = await ConsumerMember(wire, group, instance_id="a").joined(topic)
    second = ConsumerMember(wire, group, instance_id="a")
    assert await refused_join(second, topic) == ErrorCode.UNRELEASED_INSTANCE_ID
    for epoch in (holder.epoch, -1, -2):
        assert await refusal(second, member_epoch=epoch) == ErrorCode.FENCED_INSTANCE_ID
        assert await refusal(second, member_epoch=epoch, instance_id="b") == UNKNOWN_MEMBER
    assert (await holder.heartbeat()).error_code == NONE


async def test_a_static_member_that_is_back_under_another_id_has_what_it_had(wire: Wire, group: str) -> None:
    topic = await wire.topic(2)
    old = await ConsumerMember(wire, group, instance_id="a").joined(topic, partitions=2)
    before = old.epoch
    away = await old.heartbeat(member_epoch=-2)
    assert (away.error_code, away.member_epoch, away.member_id) == (NONE, -2, old.member_id)
    told = await described(wire, group)
    assert [(each.member_epoch, each.instance_id) for each in told.members] == [(-2, "a")]
    assert (told.group_state, told.group_epoch) == ("Reconciling", before)
    new = ConsumerMember(wire, group, instance_id="a")
    back = await new.join(topic)
    assert (back.error_code, back.member_epoch, places(back)) == (NONE, before, old.assigned)
    told = await described(wire, group)
    assert [each.member_id for each in told.members] == [new.member_id]
    assert (told.group_state, told.group_epoch) == ("Stable", before)
    assert await refusal(old, member_epoch=before) == ErrorCode.FENCED_INSTANCE_ID
    assert await refusal(old, member_epoch=before, instance_id=None) == UNKNOWN_MEMBER


@better_than_kafka("Apache Kafka says UNRELEASED_INSTANCE_ID to a static member that has lost an answer, and it ends")
async def test_a_static_member_may_join_again_under_its_id(wire: Wire, group: str) -> None:
    topic = await wire.topic(2)
    member = await ConsumerMember(wire, group, instance_id="a").joined(topic, partitions=2)
    before = member.epoch
    again = await member.join(topic)
    assert (again.error_code, again.member_epoch, len(places(again))) == (NONE, before, 2)


# --- how members come to their partitions


async def test_a_partition_moves_when_its_member_says_that_it_has_revoked_it(
    wire: Wire, other: Wire, group: str
) -> None:
    """The worked example of KIP-848: two members, four partitions."""
    topic = await wire.topic(4)
    first = await ConsumerMember(wire, group).joined(topic, partitions=4)
    start, had = first.epoch, first.assigned
    second = ConsumerMember(other, group)

    async def step(member: ConsumerMember, owned: Any, epoch: int, partitions: int) -> None:
        answer = await member.heartbeat(topic_partitions=owned)
        assert (answer.error_code, answer.member_epoch, len(member.assigned)) == (NONE, epoch, partitions)

    joined = await second.join(topic)
    assert (joined.member_epoch, places(joined)) == (start + 1, frozenset())
    assert (await described(wire, group)).group_state == "Reconciling"
    await step(first, None, start, 2)  # two are to be revoked
    await step(second, None, start + 1, 0)
    await step(first, said(had), start, 2)  # it has not done so yet
    await step(second, None, start + 1, 0)
    await step(first, said(first.assigned), start + 1, 2)
    await step(second, None, start + 1, 2)
    assert first.assigned | second.assigned == had
    assert (await described(wire, group)).group_state == "Stable"
    assert await first.leave() == NONE
    told = await described(wire, group)
    assert (told.group_state, told.group_epoch, told.assignment_epoch) == ("Assigning", start + 2, start + 1)
    await step(second, None, start + 2, 4)


@better_than_kafka("Apache Kafka shares partitions out to a member that does not read them, and then nobody does")
async def test_a_member_that_is_subscribed_to_nothing_takes_no_partitions(wire: Wire, other: Wire, group: str) -> None:
    topic = await wire.topic(4)
    reader = await ConsumerMember(wire, group).joined(topic, partitions=4)
    leaver = ConsumerMember(other, group)
    await leaver.join(topic)
    await in_peace(reader, leaver)
    await leaver.leave()  # the next target is computed with the next heartbeat of anybody
    idle = ConsumerMember(other, group)
    await idle.join()
    await in_peace(reader, idle)
    assert (len(reader.assigned), len(idle.assigned)) == (4, 0)


async def test_the_target_of_an_empty_group_is_that_of_its_epoch(wire: Wire, group: str) -> None:
    member = await ConsumerMember(wire, group).joined(await wire.topic())
    await member.leave()
    told = await described(wire, group)
    assert (told.group_state, told.assignment_epoch, told.members) == ("Empty", told.group_epoch, ())


async def test_a_member_that_revokes_nothing_is_removed(wire: Wire, other: Wire, group: str) -> None:
    topic = await wire.topic(2)
    slow = await ConsumerMember(wire, group).joined(topic, partitions=2, rebalance_timeout_ms=400)
    heir = ConsumerMember(other, group)
    await heir.join(topic)
    await slow.heartbeat()
    await until(lambda: _has(heir, 2), every_s=0.05)
    assert await refusal(slow) == UNKNOWN_MEMBER


async def test_the_range_assignor_gives_members_neighbouring_partitions(wire: Wire, other: Wire, group: str) -> None:
    topics = await wire.topic(3), await wire.topic(3)
    members = [ConsumerMember(each, group, f"member-{at}") for at, each in enumerate((wire, other))]
    for each in members:
        await each.join(*topics, server_assignor="range")
    await in_peace(*members)
    ids = [wire.topic_id(topic) for topic in topics]
    assert members[0].assigned == {(topic_id, index) for topic_id in ids for index in (0, 1)}
    assert members[1].assigned == {(topic_id, 2) for topic_id in ids}


# --- other requests to such a group


async def test_an_operator_removes_members_by_id_and_static_ones_by_instance(wire: Wire, group: str) -> None:
    topic = await wire.topic()
    await ConsumerMember(wire, group, "m").joined(topic)
    await ConsumerMember(wire, group, "n", "a").join(topic)
    await ConsumerMember(wire, group, "o", "b").join(topic)
    leaving = [("", "a"), ("wrong", "b"), ("", "c"), ("x", None), ("m", None)]
    identities = tuple(MemberIdentity(member_id, instance) for member_id, instance in leaving)
    answer = await wire.ask(LeaveGroupRequest(group, members=identities), 5)
    codes = [NONE, ErrorCode.FENCED_INSTANCE_ID, UNKNOWN_MEMBER, UNKNOWN_MEMBER, NONE]
    assert (answer.error_code, [each.error_code for each in answer.members]) == (NONE, codes)
    assert [each.member_id for each in (await described(wire, group)).members] == ["o"]


async def test_a_classic_member_of_another_protocol_is_kept_out(wire: Wire, other: Wire, group: str) -> None:
    await ConsumerMember(wire, group).joined(await wire.topic())
    stranger = RawMember(other, group, member_id="x", generation=1, protocol_type="connect")
    assert (await stranger.sync()).error_code == UNKNOWN_MEMBER
    assert await stranger.heartbeat() == UNKNOWN_MEMBER
    stranger.member_id = ""
    assert (await stranger.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_member_is_kept_out_of_a_classic_group_of_another_protocol(wire: Wire, group: str) -> None:
    worker = await RawMember(wire, group, protocol_type="connect").alone()
    topic = await wire.topic()
    assert await refused_join(ConsumerMember(wire, group), topic) == NOT_FOUND
    assert await refusal(ConsumerMember(wire, group), member_epoch=1) == NOT_FOUND
    assert await worker.heartbeat() == NONE
    await worker.leave()
    await ConsumerMember(wire, group).joined(topic)
