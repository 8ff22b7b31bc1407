"""DescribeClientQuotas and AlterClientQuotas (KIP-546; security.md 5.4, security.md 5.5)."""

from typing import Any

import pytest
from data_broker import DataBroker

from eosin.broker.handlers import alter_client_quotas, describe_client_quotas
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from eosin.protocol.schemas.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
Part = tuple[str, str | None]
ALICE: Part = ("user", "alice")
ANY_USER: Part = ("user", None)
APP: Part = ("client-id", "app")


def entry(*entity: Part, **values: float | None) -> RequestEntryData:
    """Quotas of an entity; None removes one."""
    ops = (OpData(key, 0.0 if value is None else value, value is None) for key, value in values.items())
    return RequestEntryData(tuple(EntityData(*each) for each in entity), tuple(ops))


async def alter(broker: DataBroker, *entries: RequestEntryData, version: int = 1, validate_only: bool = False) -> Any:
    request = AlterClientQuotasRequest(entries, validate_only)
    return (await broker.call(alter_client_quotas.API, request, version)).entries


async def described(broker: DataBroker, *components: ComponentData, strict: bool = False, version: int = 1) -> Any:
    request = DescribeClientQuotasRequest(components, strict)
    answer = await broker.call(describe_client_quotas.API, request, version)
    if answer.error_code != NONE:
        return answer.error_code
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }


@pytest.mark.parametrize("version", alter_client_quotas.API.versions)
async def test_quotas_are_set_told_and_removed(version: int) -> None:
    broker = await DataBroker.started()
    assert await described(broker, version=version) == {}
    answers = await alter(
        broker,
        entry(ALICE, producer_byte_rate=1024.0, request_percentage=12.5),
        entry(ALICE, APP, consumer_byte_rate=2048.0),
        entry(("ip", None), connection_creation_rate=5.0),
        version=version,
    )
    assert [each.error_code for each in answers] == [NONE] * 3
    assert await described(broker, version=version) == {
        (ALICE,): {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
        (APP, ALICE): {"consumer_byte_rate": 2048.0},
        (("ip", None),): {"connection_creation_rate": 5.0},
    }
    await alter(broker, entry(ALICE, producer_byte_rate=None, consumer_byte_rate=None), version=version)
    await alter(broker, entry(ALICE, APP, consumer_byte_rate=None), version=version)
    assert await described(broker, version=version) == {
        (ALICE,): {"request_percentage": 12.5},
        (("ip", None),): {"connection_creation_rate": 5.0},
    }


async def test_quotas_outlive_a_restart() -> None:
    broker = await DataBroker.started()
    await alter(broker, entry(ANY_USER, APP, producer_byte_rate=1.0), entry(ALICE, producer_byte_rate=2.0))
    await alter(broker, entry(ALICE, producer_byte_rate=None))
    await broker.stop()
    again = await DataBroker.started(disk=broker.disk)
    assert await described(again) == {(APP, ANY_USER): {"producer_byte_rate": 1.0}}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (entry(producer_byte_rate=1.0), "empty"),
        (entry(("tribe", "a"), producer_byte_rate=1.0), "Unhandled client quota entity type: tribe"),
        (entry(("user", ""), producer_byte_rate=1.0), "Empty user not supported"),
        (entry(ALICE, ANY_USER, producer_byte_rate=1.0), "twice"),
        (entry(ALICE, ("ip", "1.2.3.4"), connection_creation_rate=1.0), "IP entity should not be combined"),
        (entry(("ip", "localhost"), connection_creation_rate=1.0), "is not a valid IP"),
        (entry(("ip", "1.2.3.4"), producer_byte_rate=1.0), "Invalid configuration key producer_byte_rate"),
        (entry(ALICE, connection_creation_rate=1.0), "Invalid configuration key connection_creation_rate"),
        (entry(ALICE, producer_byte_rat=1.0), "Invalid configuration key producer_byte_rat"),
        (entry(ALICE, producer_byte_rate=0.0), "must be greater than 0"),
        (entry(ALICE, producer_byte_rate=float("nan")), "must be greater than 0"),
        (entry(ALICE, producer_byte_rate=1.5), "cannot be a fractional value"),
        (entry(ALICE, producer_byte_rate=1e300), "too large for a LONG"),
        (entry(ALICE, request_percentage=float("inf")), "too large for a DOUBLE"),
        (entry(("ip", None), connection_creation_rate=2.0**31), "too large for an INT"),
    ],
)
async def test_an_entry_that_makes_no_sense_is_refused_and_the_rest_is_done(wrong: RequestEntryData, why: str) -> None:
    broker = await DataBroker.started()
    refused, done = await alter(broker, wrong, entry(APP, producer_byte_rate=7.0))
    assert (refused.error_code, done.error_code) == (INVALID, NONE)
    assert why in refused.error_message
    assert await described(broker) == {(APP,): {"producer_byte_rate": 7.0}}


async def test_the_same_entity_or_key_twice_is_refused() -> None:
    broker = await DataBroker.started()
    both = await alter(broker, entry(ALICE, APP, producer_byte_rate=1.0), entry(APP, ALICE, producer_byte_rate=2.0))
    assert [each.error_code for each in both] == [INVALID, INVALID]
    twice = RequestEntryData(
        (EntityData(*ALICE),), (OpData("producer_byte_rate", 1.0), OpData("producer_byte_rate", 2.0))
    )
    assert [each.error_code for each in await alter(broker, twice)] == [INVALID]
    assert await described(broker) == {}


async def test_a_dry_run_changes_nothing() -> None:
    broker = await DataBroker.started()
    good, bad = await alter(
        broker, entry(ALICE, producer_byte_rate=1.0), entry(ALICE, APP, nonsense=1.0), validate_only=True
    )
    assert (good.error_code, bad.error_code) == (NONE, INVALID)
    assert await described(broker) == {}


async def test_addresses_have_one_spelling() -> None:
    broker = await DataBroker.started()
    await alter(broker, entry(("ip", "0:0::0001"), connection_creation_rate=1.0))
    await alter(broker, entry(("ip", "::ffff:1.2.3.4"), connection_creation_rate=2.0))
    assert set(await described(broker)) == {(("ip", "::1"),), (("ip", "1.2.3.4"),)}


EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ((), False, {(ALICE,), (ANY_USER,), (APP,), (APP, ALICE)}),
        ((), True, set()),
        ((("user", EXACT, "alice"),), False, {(ALICE,), (APP, ALICE)}),
        ((("user", EXACT, "alice"),), True, {(ALICE,)}),
        ((("user", DEFAULT, None),), False, {(ANY_USER,)}),
        ((("user", ANY, None),), True, {(ALICE,), (ANY_USER,)}),
        ((("user", ANY, None), ("client-id", EXACT, "app")), True, {(APP, ALICE)}),
        ((("ip", ANY, None),), False, set()),
    ],
)
async def test_a_filter_names_what_is_told(components: Any, strict: bool, expected: set[Any]) -> None:
    broker = await DataBroker.started()
    entities: tuple[tuple[Part, ...], ...] = ((ALICE,), (ANY_USER,), (APP,), (APP, ALICE))
    await alter(broker, *(entry(*entity, producer_byte_rate=1.0) for entity in entities))
    assert set(await described(broker, *(ComponentData(*each) for each in components), strict=strict)) == expected


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ((("", EXACT, "a"),), INVALID),
        ((("tribe", EXACT, "a"),), ErrorCode.UNSUPPORTED_VERSION),
        ((("user", EXACT, "a"), ("user", EXACT, "b")), INVALID),
        ((("user", EXACT, None),), INVALID),
        ((("user", DEFAULT, "a"),), INVALID),
        ((("user", 3, None),), INVALID),
        ((("user", ANY, None), ("ip", ANY, None)), INVALID),
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(components: Any, error: ErrorCode) -> None:
    broker = await DataBroker.started()
    assert await described(broker, *(ComponentData(*each) for each in components)) == error
