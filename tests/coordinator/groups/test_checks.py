"""Who may heartbeat and commit, by state and identity (groups.md 7, 8 and 10)."""

import pytest
from msgspec.structs import replace

from eosin.coordinator.groups.rules import checks
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.protocol.errors import ErrorCode

MEMBERS = {
    "m": Member("m", None, "c", "/h", 10_000, 60_000, (("range", b""),)),
    "s": Member("s", "instance", "c", "/h", 10_000, 60_000, (("range", b""),)),
}
STABLE = Group("g", state=GroupState.STABLE, generation_id=5, protocol_type="consumer", members=MEMBERS, leader_id="m")
EMPTY = Group("g", generation_id=5, protocol_type="consumer")
PREPARING = replace(STABLE, state=GroupState.PREPARING_REBALANCE)
COMPLETING = replace(STABLE, state=GroupState.COMPLETING_REBALANCE)
DEAD = replace(STABLE, state=GroupState.DEAD)

FENCED = ErrorCode.FENCED_INSTANCE_ID
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
OK = ErrorCode.NONE

ME = ("m", None, 5)
STATIC = ("s", "instance", 5)
ZOMBIE = ("m", None, 4)
STRANGER = ("x", None, 5)
REPLACED = ("x", "instance", 5)
NOBODY = ("", None, -1)


@pytest.mark.parametrize(
    ("group", "identity", "expected"),
    [
        (STABLE, ME, OK),
        (STABLE, STATIC, OK),
        (STABLE, ZOMBIE, ILLEGAL),
        (STABLE, STRANGER, UNKNOWN),
        (STABLE, REPLACED, FENCED),
        (COMPLETING, ME, OK),
        (PREPARING, ME, REBALANCE),
        (PREPARING, ZOMBIE, ILLEGAL),
        (EMPTY, ME, UNKNOWN),
        (DEAD, ME, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_heartbeat_is_answered_by_state_and_identity(
    group: Group, identity: tuple[str, str | None, int], expected: ErrorCode
) -> None:
    member_id, instance_id, generation_id = identity
    answer = checks.heartbeat(group, member_id=member_id, instance_id=instance_id, generation_id=generation_id)
    assert answer is expected


@pytest.mark.parametrize(
    ("group", "identity", "plain", "transactional"),
    [
        (STABLE, ME, OK, OK),
        (STABLE, STATIC, OK, OK),
        (PREPARING, ME, OK, OK),
        # A transaction is not stopped by a rebalance that is only completing: the member is still current.
        (COMPLETING, ME, REBALANCE, OK),
        (STABLE, ZOMBIE, ILLEGAL, ILLEGAL),
        (STABLE, STRANGER, UNKNOWN, UNKNOWN),
        (STABLE, REPLACED, FENCED, FENCED),
        (STABLE, ("m", None, -1), ILLEGAL, ILLEGAL),
        # Nobody in particular: a plain commit must not disturb members, an old producer is fenced by its epoch.
        (STABLE, NOBODY, UNKNOWN, OK),
        (COMPLETING, NOBODY, UNKNOWN, OK),
        (EMPTY, NOBODY, OK, OK),
        (EMPTY, ME, UNKNOWN, UNKNOWN),
        (EMPTY, ("m", None, -1), OK, OK),
        (DEAD, NOBODY, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_commit_is_admitted_by_state_and_identity(
    group: Group, identity: tuple[str, str | None, int], plain: ErrorCode, transactional: ErrorCode
) -> None:
    member_id, instance_id, generation_id = identity
    who = {"member_id": member_id, "instance_id": instance_id}
    assert checks.offset_commit(group, **who, generation_id=generation_id) is plain
    assert checks.transactional_commit(group, **who, generation_id=generation_id) is transactional


def test_a_commit_without_generation_makes_a_group_and_any_other_needs_one() -> None:
    absent = checks.commit_to_absent_group
    assert absent(generation_id=-1, transactional=False, api_version=9) is OK
    assert absent(generation_id=0, transactional=False, api_version=8) is ILLEGAL
    assert absent(generation_id=0, transactional=False, api_version=9) is ErrorCode.GROUP_ID_NOT_FOUND
    assert absent(generation_id=0, transactional=True, api_version=5) is ILLEGAL


def test_only_a_commit_outside_of_a_sync_phase_counts_as_a_sign_of_life() -> None:
    assert checks.keeps_session_alive(STABLE)
    assert checks.keeps_session_alive(PREPARING)
    assert not checks.keeps_session_alive(COMPLETING)


@pytest.mark.parametrize(
    ("metadata", "fits"),
    [
        (None, True),
        ("", True),
        ("x" * 10, True),
        ("x" * 11, False),
        ("é" * 10, True),
        ("🙂" * 5, True),
        ("🙂" * 6, False),
    ],
)
def test_metadata_is_measured_in_utf_16_units(metadata: str | None, fits: bool) -> None:
    assert checks.metadata_fits(metadata, 10) is fits
