"""What a group can tell about itself."""

from eosin.coordinator.groups.rules.group import Group, GroupState, Member, Protocols, select_protocol
from eosin.protocol.errors import ErrorCode


def member(member_id: str, *names: str, instance_id: str | None = None, rebalance_timeout_ms: int = 1) -> Member:
    protocols: Protocols = tuple((name, name.encode()) for name in names)
    return Member(member_id, instance_id, "c", "/h", 10_000, rebalance_timeout_ms, protocols)


def group_of(*members: Member, state: GroupState = GroupState.STABLE) -> Group:
    return Group("g", state=state, protocol_type="consumer", members={each.member_id: each for each in members})


def test_the_protocol_with_most_votes_is_selected() -> None:
    members = [member("a", "range", "rr"), member("b", "rr", "range"), member("c", "rr", "range")]
    assert select_protocol(members) == "rr"


def test_a_protocol_that_one_member_lacks_gets_no_votes() -> None:
    assert (
        select_protocol([member("a", "sticky", "range"), member("b", "sticky", "range"), member("c", "range")])
        == "range"
    )


def test_a_tie_goes_to_the_protocol_that_got_its_first_vote_earlier() -> None:
    first, second = member("a", "range", "rr"), member("b", "rr", "range")
    assert select_protocol([first, second]) == "range"
    assert select_protocol([second, first]) == "rr"


def test_a_member_offering_what_all_others_support_is_accepted() -> None:
    group = group_of(member("a", "range", "rr"), member("b", "rr"))
    assert group.accepts_protocols("consumer", (("rr", b""),), joiner_id=None)
    assert not group.accepts_protocols("consumer", (("range", b""),), joiner_id=None)
    assert not group.accepts_protocols("consumer", (), joiner_id=None)
    assert not group.accepts_protocols("connect", (("rr", b""),), joiner_id=None)


def test_a_members_own_old_protocols_do_not_stand_in_its_way() -> None:
    group = group_of(member("a", "range"))
    assert group.accepts_protocols("consumer", (("rr", b""),), joiner_id="a")
    assert not group.accepts_protocols("consumer", (("rr", b""),), joiner_id=None)


def test_an_empty_group_takes_any_named_protocol() -> None:
    group = group_of(state=GroupState.EMPTY)
    assert group.accepts_protocols("connect", (("v1", b""),), joiner_id=None)
    assert not group.accepts_protocols("", (("v1", b""),), joiner_id=None)
    assert not group.accepts_protocols("connect", (), joiner_id=None)


def test_a_member_is_known_by_its_id_and_a_static_one_by_both_names() -> None:
    group = group_of(member("a", "range"), member("b", "range", instance_id="i"))
    assert group.check_member("a", None) is ErrorCode.NONE
    assert group.check_member("b", None) is ErrorCode.NONE
    assert group.check_member("b", "i") is ErrorCode.NONE
    assert group.check_member("x", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_member("x", "j") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_request_with_the_static_name_of_another_member_is_fenced() -> None:
    group = group_of(member("a", "range"), member("b", "range", instance_id="i"))
    assert group.check_member("old", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert group.check_member("a", "i") is ErrorCode.FENCED_INSTANCE_ID


def test_the_slowest_member_sets_the_rebalance_timeout() -> None:
    assert group_of(member("a", rebalance_timeout_ms=5), member("b", rebalance_timeout_ms=9)).rebalance_timeout_ms == 9
    assert group_of().rebalance_timeout_ms == 0
