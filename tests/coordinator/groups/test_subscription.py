"""Which topics a group is subscribed to."""

import struct

from group_fakes import subscription
from msgspec.structs import replace

from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.subscription import subscribed_topics


def group_of(*metadata: bytes) -> Group:
    members = {
        f"m{number}": Member(f"m{number}", None, "c", "/h", 1, 1, (("range", each),))
        for number, each in enumerate(metadata)
    }
    return Group("g", GroupState.STABLE, protocol_type="consumer", protocol_name="range", members=members)


def test_a_group_is_subscribed_to_what_any_member_wants() -> None:
    assert subscribed_topics(group_of(subscription("a", "b"), subscription("b", "c"))) == {"a", "b", "c"}


def test_a_group_without_members_is_subscribed_to_nothing() -> None:
    assert subscribed_topics(Group("g")) == frozenset()


def test_a_subscription_of_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = struct.pack(">h", 9) + subscription("a")[2:] + struct.pack(">iih", 0, 5, -1) + b"more"
    assert subscribed_topics(group_of(newer)) == {"a"}


def test_an_unreadable_subscription_counts_as_all_topics() -> None:
    assert subscribed_topics(group_of(subscription("a"), b"")) is None
    assert subscribed_topics(group_of(subscription("a")[:-6])) is None
    assert subscribed_topics(replace(group_of(subscription("a")), protocol_type="connect")) is None
