"""What sessions may do by access control entries (security.md 4.3, 4.4)."""

import random
from collections.abc import Sequence
from dataclasses import replace

import acl_oracle
import pytest
from call_counter import CallCounter

from eosin.model.acls import Acl, PatternType, Permission
from eosin.model.principals import Principal
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.security import authorizer as module
from eosin.security.acl_index import REMEMBERED_HOST_CHARS, AclIndex, host_key, remembered_key
from eosin.security.authorizer import REMEMBERED, REMEMBERED_CHARS, StandardAuthorizer
from eosin.security.session import Session

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALICE = "User:alice"


def allow(
    operation: Operation,
    name: str = "orders",
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = TOPIC,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def deny(operation: Operation, name: str = "orders", **how: object) -> Acl:
    return allow(operation, name, permission=Permission.DENY, **how)  # type: ignore[arg-type]


def authorizer_of(*acls: Acl, super_users: Sequence[str] = (), allow_everyone: bool = False) -> StandardAuthorizer:
    made = StandardAuthorizer(super_users=super_users, allow_everyone=allow_everyone)
    made.change(added=acls)
    return made


def session(authorizer: StandardAuthorizer, name: str = "alice", host: str = "10.0.0.1") -> Session:
    return Session(principal=Principal("User", name), host=host, authorizer=authorizer)


def may(
    authorizer: StandardAuthorizer, operation: Operation, name: str = "orders", *, kind: ResourceType = TOPIC
) -> bool:
    return session(authorizer).may(operation, kind, name)


def test_nobody_may_anything_without_an_entry() -> None:
    assert not may(authorizer_of(), Operation.READ)


def test_a_denial_goes_before_whatever_allows() -> None:
    authorizer = authorizer_of(allow(Operation.READ), deny(Operation.READ, "*"))
    assert not may(authorizer, Operation.READ)


def test_a_super_user_is_not_asked_about() -> None:
    authorizer = authorizer_of(deny(Operation.ALL, "*", principal="User:*"), super_users=[ALICE])
    assert may(authorizer, Operation.READ)
    assert not session(authorizer, "bob").may(Operation.READ, TOPIC, "orders")


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_to_allow_these_allows_to_describe_and_to_deny_them_denies_nothing_else(operation: Operation) -> None:
    assert may(authorizer_of(allow(operation)), Operation.DESCRIBE)
    assert may(authorizer_of(allow(Operation.DESCRIBE), deny(operation)), Operation.DESCRIBE)
    assert not may(authorizer_of(allow(operation)), Operation.DESCRIBE_CONFIGS)


def test_to_allow_altered_configs_allows_to_describe_them() -> None:
    authorizer = authorizer_of(allow(Operation.ALTER_CONFIGS))
    assert may(authorizer, Operation.DESCRIBE_CONFIGS)
    assert not may(authorizer, Operation.DESCRIBE)


def test_all_means_every_operation_in_both_directions() -> None:
    for operation in Operation:
        if operation > Operation.ALL:
            assert may(authorizer_of(allow(Operation.ALL)), operation)
            assert not may(authorizer_of(allow(operation), deny(Operation.ALL)), operation)


def test_a_prefix_named_star_is_the_prefix_of_names_that_begin_with_a_star() -> None:
    authorizer = authorizer_of(allow(Operation.READ, "*", pattern=PatternType.PREFIXED))
    assert may(authorizer, Operation.READ, "*orders")
    assert not may(authorizer, Operation.READ, "orders")


def test_principals_are_compared_byte_for_byte() -> None:
    authorizer = authorizer_of(allow(Operation.READ, principal="User:Alice"), allow(Operation.READ, principal="alice"))
    assert not may(authorizer, Operation.READ)


def test_everybody_is_also_who_has_another_type() -> None:
    authorizer = authorizer_of(allow(Operation.READ, principal="User:*"))
    robot = Session(principal=Principal("Robot", "r2"), authorizer=authorizer)
    assert robot.may(Operation.READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("written", "peer"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("fe80::1", "fe80::1%eth0"),
    ],
)
def test_hosts_are_compared_as_addresses(written: str, peer: str) -> None:
    authorizer = authorizer_of(allow(Operation.READ, host=written))
    assert session(authorizer, host=peer).may(Operation.READ, TOPIC, "orders")
    assert not session(authorizer, host="10.9.9.9").may(Operation.READ, TOPIC, "orders")


@pytest.mark.parametrize("written", ["10.0.0.0/8", "10.0.0.7/24", "0.0.0.0/0", "10.0.0.1/32", "::/0", "fe80::/10"])
def test_a_host_may_be_a_network(written: str) -> None:
    authorizer = authorizer_of(allow(Operation.READ, host=written), deny(Operation.WRITE, host=written))
    authorizer.change(added=[allow(Operation.WRITE)])
    inside, outside = ("fe80::1", "10.0.0.1") if ":" in written else ("10.0.0.1", "fe80::1")
    for host, is_inside in ((inside, True), (outside, False)):
        asking = session(authorizer, host=host)
        assert asking.may(Operation.READ, TOPIC, "orders") is is_inside
        assert asking.may_any(Operation.READ, TOPIC) is is_inside
        assert asking.may(Operation.WRITE, TOPIC, "orders") is not is_inside
        told = authorizer.decision(Operation.WRITE, TOPIC, "orders", principal=ALICE, host=host)
        assert told.allowed is not is_inside


@pytest.mark.parametrize("peer", ["10.0.1.1", "11.0.0.1", "::ffff:10.0.1.1", "unknown"])
def test_a_peer_outside_of_a_network_is_not_meant(peer: str) -> None:
    assert not session(authorizer_of(allow(Operation.READ, host="10.0.0.0/24")), host=peer).may(
        Operation.READ, TOPIC, "orders"
    )


def test_a_peer_with_a_mapped_address_is_in_the_network_of_its_own() -> None:
    authorizer = authorizer_of(allow(Operation.READ, host="10.0.0.0/24"))
    assert session(authorizer, host="::ffff:10.0.0.9").may(Operation.READ, TOPIC, "orders")


@pytest.mark.parametrize(
    "host", ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/255.0.0.0", "/8", "localhost", "10.0.0.01", "", "10.0.0.1 "]
)
def test_a_host_that_is_no_address_matches_no_peer(host: str) -> None:
    authorizer = authorizer_of(allow(Operation.READ, host=host))
    assert not session(authorizer, host=host).may(Operation.READ, TOPIC, "orders")
    assert not session(authorizer, host=host).may_any(Operation.READ, TOPIC)


def test_everyone_is_allowed_only_where_no_entry_is_about_the_resource_whoever_its_principal() -> None:
    authorizer = authorizer_of(allow(Operation.READ, "kept", principal="User:bob"), allow_everyone=True)
    assert may(authorizer, Operation.WRITE, "free")
    assert may(authorizer, Operation.READ, "kept", kind=GROUP)
    assert not may(authorizer, Operation.READ, "kept")


def test_a_change_is_seen_by_sessions_that_were_answered_before() -> None:
    authorizer = authorizer_of()
    alice = session(authorizer)
    assert not alice.may(Operation.READ, TOPIC, "orders")
    authorizer.change(added=[allow(Operation.READ)])
    assert alice.may(Operation.READ, TOPIC, "orders")
    assert alice.may_any(Operation.READ, TOPIC)
    authorizer.change(removed=[allow(Operation.READ)])
    assert not alice.may(Operation.READ, TOPIC, "orders")
    assert not alice.may_any(Operation.READ, TOPIC)


def test_sessions_of_one_principal_and_address_share_what_is_remembered() -> None:
    authorizer = authorizer_of(allow(Operation.READ))
    one, two, elsewhere = session(authorizer), session(authorizer), session(authorizer, host="10.0.0.2")
    for each in (one, two, elsewhere):
        each.may(Operation.READ, TOPIC, "orders")
    assert one.decisions is two.decisions
    assert one.decisions is not elsewhere.decisions


def test_a_session_made_of_another_inherits_none_of_its_answers() -> None:
    authorizer = authorizer_of(allow(Operation.READ))
    alice = session(authorizer)
    assert alice.may(Operation.READ, TOPIC, "orders")
    bob = replace(alice, principal=Principal("User", "bob"))
    assert not bob.may(Operation.READ, TOPIC, "orders")


def test_remembered_decisions_have_a_limit() -> None:
    authorizer = authorizer_of(allow(Operation.READ, "t", pattern=PatternType.PREFIXED))
    alice = session(authorizer)
    for number in range(3 * REMEMBERED):
        assert alice.may(Operation.READ, TOPIC, f"t{number}")
        assert sum(map(len, alice.decisions.permitted)) <= REMEMBERED


def test_of_long_names_no_answer_is_remembered() -> None:
    authorizer = authorizer_of(allow(Operation.READ, "t", pattern=PatternType.PREFIXED))
    alice = session(authorizer)
    assert alice.may(Operation.READ, TOPIC, "t" * REMEMBERED_CHARS)
    before = authorizer.kept_bytes
    for number in range(100):
        assert alice.may(Operation.READ, TOPIC, f"t{number}" + "x" * 32_000)
    assert authorizer.kept_bytes == before


def test_remembered_decisions_of_all_addresses_together_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_BYTES", 1_000_000)
    authorizer = authorizer_of(allow(Operation.READ, "t", pattern=PatternType.PREFIXED))
    small = session(authorizer, host="10.0.1.1")
    assert small.may(Operation.READ, TOPIC, "t")
    sessions = [session(authorizer, host=f"10.0.0.{number}") for number in range(20)]
    for each in sessions:
        for number in range(500):
            assert each.may(Operation.READ, TOPIC, f"t{number}" + "x" * 200)
        assert authorizer.kept_bytes <= module.REMEMBERED_BYTES
    assert authorizer.kept_bytes > module.REMEMBERED_BYTES // 4, "it is used"
    assert sum(map(len, small.decisions.permitted)) == 1, "who has little keeps it"
    del sessions, each
    assert authorizer.kept_bytes < 1000, "answers go with their sessions"


def test_a_decision_names_the_entry_that_decided() -> None:
    authorizer = authorizer_of(allow(Operation.READ), deny(Operation.WRITE, "ord", pattern=PatternType.PREFIXED))

    def rule(operation: Operation, name: str = "orders") -> str:
        return authorizer.decision(operation, TOPIC, name, principal=ALICE, host="10.0.0.1").rule

    assert rule(Operation.DESCRIBE) == "ALLOW User:alice READ on LITERAL TOPIC orders from *"
    assert rule(Operation.WRITE) == "DENY User:alice WRITE on PREFIXED TOPIC ord from *"
    assert rule(Operation.ALTER) == "DefaultDeny"
    assert rule(Operation.READ, "other") == ("no entry for the resource, and allow.everyone.if.no.acl.found is false")


def test_an_index_that_is_held_does_not_change() -> None:
    before = AclIndex().changed(
        added=[allow(Operation.READ), allow(Operation.READ, "ord", pattern=PatternType.PREFIXED)]
    )
    after = before.changed(added=[deny(Operation.READ)], removed=[allow(Operation.READ)])
    assert before.permitted(TOPIC, "orders", ALICE, "10.0.0.1") != after.permitted(TOPIC, "orders", ALICE, "10.0.0.1")
    assert before.changed(removed=[allow(Operation.READ)]).permitted(TOPIC, "orders", ALICE, None)
    assert (before.size, after.size) == (2, 2)


# Against an oracle ---------------------------------------------------------------------------------------------------

NAMES = ("*", "a", "ab", "abc", "abd", "b", "hardcode", "har", "kafka-cluster")
PRINCIPALS = ("User:*", "User:x", "User:y", "Robot:x")
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "10.0.0.0/31", "0.0.0.0/0")
VERY_MANY = 100_000
PART = 10_000
"""Sets in one test, three seconds of CPU: workers share the parts, and none comes near to the limit of a test."""
KINDS = (TOPIC, GROUP)
OPERATIONS = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)


def drawn(chance: random.Random) -> Acl:
    return Acl(
        chance.choice(KINDS),
        chance.choice(NAMES),
        chance.choice((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)),
        chance.choice(PRINCIPALS),
        chance.choice(HOSTS),
        chance.choice(OPERATIONS),
        chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def compare(seed: int) -> None:
    """One set of entries, made in random steps of creations and deletions, and questions after each."""
    chance = random.Random(seed)
    allow_everyone = chance.random() < 0.3
    super_users = ["User:y"] if chance.random() < 0.2 else []
    authorizer = StandardAuthorizer(super_users=super_users, allow_everyone=allow_everyone)
    held: list[Acl] = []
    sessions = [
        Session(principal=Principal(*principal.split(":")), host=host, authorizer=authorizer)
        for principal in PRINCIPALS[1:]
        for host in HOSTS[1:3]
    ]
    for _ in range(chance.randint(1, 4)):
        added = [acl for acl in dict.fromkeys(drawn(chance) for _ in range(chance.randint(0, 6))) if acl not in held]
        removed = chance.sample(held, chance.randint(0, len(held)))
        authorizer.change(added=added, removed=removed)
        held = [acl for acl in held if acl not in removed] + added
        for _ in range(4):
            asking, kind, operation = chance.choice(sessions), chance.choice(KINDS), chance.choice(OPERATIONS[1:])
            name = chance.choice(NAMES)
            facts = {
                "principal": str(asking.principal),
                "host": asking.host,
                "super_users": super_users,
                "allow_everyone": allow_everyone,
            }
            expected = acl_oracle.may(held, operation, kind, name, **facts)  # type: ignore[arg-type]
            assert asking.may(operation, kind, name) is expected, (seed, held, operation, kind, name, facts)
            told = authorizer.decision(operation, kind, name, principal=str(asking.principal), host=asking.host)
            assert told.allowed is expected, (seed, held, operation, kind, name, facts)
            expected = acl_oracle.may_any(held, operation, kind, **facts)  # type: ignore[arg-type]
            assert asking.may_any(operation, kind) is expected, (seed, held, operation, kind, facts)
    assert authorizer.index.size == len(held)


def test_the_authorizer_says_what_an_oracle_says() -> None:
    for seed in range(3000):
        compare(seed)


@pytest.mark.full
@pytest.mark.long
@pytest.mark.parametrize("first", range(0, VERY_MANY, PART), ids=lambda first: f"from-{first}")
def test_the_authorizer_says_what_an_oracle_says_of_very_many_sets(first: int) -> None:
    for seed in range(first, first + PART):
        compare(seed)


def test_the_oracle_has_cases_of_every_kind() -> None:
    """Guards the comparison itself: questions are allowed and denied, and no rule is out of its reach."""
    chance = random.Random(5)
    answers = set()
    for _ in range(2000):
        held = [drawn(chance) for _ in range(4)]
        how = {"principal": "User:x", "host": "10.0.0.1", "super_users": (), "allow_everyone": False}
        one = acl_oracle.may(held, Operation.DESCRIBE, TOPIC, "ab", **how)  # type: ignore[arg-type]
        some = acl_oracle.may_any(held, Operation.WRITE, TOPIC, **how)  # type: ignore[arg-type]
        answers.add((one, some))
    assert len(answers) == 4


def test_100000_entries_take_one_more_without_a_look_at_each() -> None:
    acls = [allow(Operation.READ, f"topic-{number}", principal=f"User:u{number % 1000}") for number in range(100_000)]
    authorizer = authorizer_of(*acls)
    with CallCounter() as change:
        authorizer.change(added=[allow(Operation.READ)])
        assert may(authorizer, Operation.READ)
    assert change.calls < 1000
    assert authorizer.index.size == 100_001


def test_the_cluster_has_one_name() -> None:
    authorizer = authorizer_of(allow(Operation.ALTER, CLUSTER_NAME, kind=ResourceType.CLUSTER))
    assert may(authorizer, Operation.ALTER, CLUSTER_NAME, kind=ResourceType.CLUSTER)


def test_a_host_has_one_key() -> None:
    assert host_key("*") == "*"
    assert host_key("0:0:0:0:0:ffff:a00:1") == host_key("10.0.0.1") == "10.0.0.1"
    assert host_key("broker") is None


def test_of_long_hosts_no_key_is_remembered() -> None:
    assert host_key("h" * REMEMBERED_HOST_CHARS) is None
    before = remembered_key.cache_info().currsize
    for number in range(1, 100):
        assert host_key(f"h{number}" + "x" * 30_000) is None
        assert host_key(f"fe80::{number:x}%" + "e" * REMEMBERED_HOST_CHARS) == f"fe80::{number:x}"
    assert remembered_key.cache_info().currsize == before
