"""Which quota a request comes under, and which entities and values may have one (security.md 5.1)."""

import pytest

from eosin.model.quota_table import (
    CLIENT_ID,
    IP,
    USER,
    Limit,
    QuotaKey,
    QuotaTable,
    entity_of,
    wrong_entity,
    wrong_value,
)

RATE = QuotaKey.PRODUCER_BYTE_RATE
FROM_GENERAL_TO_SPECIAL = [
    ([(CLIENT_ID, None)], ("", "app")),
    ([(CLIENT_ID, "app")], ("", "app")),
    ([(USER, None)], ("ann", "")),
    ([(CLIENT_ID, None), (USER, None)], ("ann", "app")),
    ([(CLIENT_ID, "app"), (USER, None)], ("ann", "app")),
    ([(USER, "ann")], ("ann", "")),
    ([(CLIENT_ID, None), (USER, "ann")], ("ann", "app")),
    ([(CLIENT_ID, "app"), (USER, "ann")], ("ann", "app")),
]
"""Entities, and who shares the quota of each, as Apache Kafka orders them (KIP-55)."""


def test_the_most_specific_quota_of_a_key_counts() -> None:
    table = QuotaTable()
    assert table.of_request(RATE, "ann", "app") is None
    for bound, (parts, shared_by) in enumerate(FROM_GENERAL_TO_SPECIAL, start=1):
        table.put(entity_of(parts), RATE, bound)
        assert table.of_request(RATE, "ann", "app") == Limit(bound, shared_by)
        assert table.of_request(QuotaKey.CONSUMER_BYTE_RATE, "ann", "app") is None


def test_when_a_quota_is_removed_the_next_more_general_one_counts_again() -> None:
    table, told = QuotaTable(), list[bool]()
    table.put(entity_of([(USER, None)]), RATE, 1)
    table.put(entity_of([(USER, "ann")]), RATE, 2)
    table.on_change.append(lambda: told.append(bool(table)))
    table.remove(entity_of([(USER, "ann")]), RATE)
    assert table.of_request(RATE, "ann", "app") == Limit(1, ("ann", ""))
    table.remove(entity_of([(USER, None)]), RATE)
    table.remove(entity_of([(USER, None)]), RATE)  # as in Kafka, no error
    assert table.of_request(RATE, "ann", "app") is None
    assert told == [True, False, False]


@pytest.mark.parametrize("spelling", ["127.0.0.1", "::ffff:127.0.0.1", "::FFFF:7f00:1"])
def test_an_address_has_one_entity_however_it_is_spelled(spelling: str) -> None:
    table = QuotaTable()
    table.put(entity_of([(IP, spelling)]), QuotaKey.CONNECTION_CREATION_RATE, 5)
    assert table.of_address("127.0.0.1") == 5
    assert table.of_address("127.0.0.2") is None


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("group", "g")],
        [(USER, "")],
        [(USER, "ann"), (USER, None)],
        [(IP, "127.0.0.1"), (USER, "ann")],
        [(IP, "localhost")],
    ],
)
def test_an_entity_that_kafka_refuses_is_refused_with_a_sentence(parts: list[tuple[str, str | None]]) -> None:
    assert wrong_entity(parts)


@pytest.mark.parametrize(
    ("kind", "key", "value", "allowed"),
    [
        (USER, "producer_byte_rate", 1.0, True),
        (USER, "producer_byte_rate", 0.0, False),
        (USER, "producer_byte_rate", 1.5, False),
        (USER, "producer_byte_rate", 2.0**53 + 2, False),
        (USER, "producer_byte_rate", float("nan"), False),
        (USER, "request_percentage", 1.5, True),
        (USER, "request_percentage", float("inf"), False),
        (USER, "connection_creation_rate", 1.0, False),
        (USER, "no_such_key", None, False),
        (USER, "producer_byte_rate", None, True),
        (IP, "connection_creation_rate", 2.0**31 - 1, True),
        (IP, "connection_creation_rate", 2.0**31, False),
        (IP, "producer_byte_rate", 1.0, False),
    ],
)
def test_a_value_is_allowed_where_kafka_allows_it(kind: str, key: str, value: float | None, allowed: bool) -> None:
    assert (wrong_value(((kind, None),), key, value) is None) is allowed


def test_a_table_limits_what_an_entity_has_a_quota_of_however_it_was_set_and_removed() -> None:
    table, ann, bob = QuotaTable(), ((USER, "ann"),), ((USER, "bob"),)
    assert not table.limits(RATE)
    table.remove(ann, RATE)
    for bound in (1, 2):
        table.put(ann, RATE, bound)
    table.put(bob, RATE, 1)
    assert (table.limits(RATE), table.limits(QuotaKey.REQUEST_PERCENTAGE)) == (True, False)
    for entity in (ann, ann, bob):
        assert table.limits(RATE)
        table.remove(entity, RATE)
    assert not table.limits(RATE)
    table.replace_all({ann: {RATE: 1.0}, bob: {QuotaKey.REQUEST_PERCENTAGE: 1.0}})
    assert (table.limits(RATE), table.limits(QuotaKey.REQUEST_PERCENTAGE)) == (True, True)
    table.replace_all({})
    assert not table.limits(RATE)


def test_a_change_looks_at_no_other_quota() -> None:
    """The listener asks after each change, as a broker does that counts connections; it took 9 s for 20,000 users."""
    table = QuotaTable()
    looked: list[object] = []

    class Values(dict[str, float]):
        def __contains__(self, key: object) -> bool:
            looked.append(key)
            return super().__contains__(key)

    table._values = {((USER, f"u-{number}"),): Values({RATE: 1.0}) for number in range(100)}
    table.on_change.append(lambda: looked.append(table.limits(QuotaKey.CONNECTION_CREATION_RATE)))
    table.put(((USER, "ann"),), RATE, 1.0)
    assert looked == [False]
