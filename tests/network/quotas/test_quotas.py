"""Quotas at work: what clients are told, and that they are held to it (security.md 5)."""

import asyncio

import pytest
from quota_scenario import BATCH_BYTES, QuotaScenario
from virtual_broker import VirtualBroker
from wire import Wire
from wire_share_group import ShareMember

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.network.quotas import enforcement
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest

pytestmark = pytest.mark.virtual


@pytest.fixture
async def broker() -> VirtualBroker:
    started = VirtualBroker({})
    await started.start()
    return started


@pytest.fixture
async def scenario(broker: VirtualBroker) -> QuotaScenario:
    return QuotaScenario(Address.parse(broker.address))


async def test_without_a_quota_nothing_is_in_the_way_of_requests(
    broker: VirtualBroker, scenario: QuotaScenario
) -> None:
    server = broker.server
    assert server.host.hooks is None
    await scenario.limit(producer_byte_rate=1000)
    assert server.host.hooks is not None
    await scenario.limit(producer_byte_rate=None)
    assert server.host.hooks is None


async def test_a_producer_is_told_to_pause_when_ten_seconds_worth_is_used(scenario: QuotaScenario) -> None:
    told = await scenario.of_produce()
    assert told[:4] == [0, 0, 0, 0], "100,000 bytes may be used at once"
    for number, throttle_ms in enumerate(told[5:], start=6):
        beyond = number * BATCH_BYTES - 100_000
        assert throttle_ms == pytest.approx(min(beyond / 10_000 * 1000, 15_000), rel=0.2)


async def test_other_clients_are_not_throttled(scenario: QuotaScenario) -> None:
    await scenario.of_produce()
    assert (await scenario.produce(client_id="another")).throttle_time_ms == 0


async def test_a_connection_over_its_quota_is_not_read_for_as_long_as_told(scenario: QuotaScenario) -> None:
    await scenario.filled(0)
    await scenario.limit(request_percentage=0.0001)
    loop = asyncio.get_running_loop()
    async with await Connection.open(scenario.address, client_id=scenario.client_id) as connection:
        first = connection.submit(ApiKey.METADATA, MetadataRequest(topics=()), version=9)
        second = asyncio.ensure_future(connection.submit(ApiKey.METADATA, MetadataRequest(topics=()), version=9))
        assert (await first).throttle_time_ms == 1000, "the response itself is not held back"
        told_at = loop.time()
        await second
        assert loop.time() - told_at == pytest.approx(1, rel=0.01)


async def test_the_end_of_a_transaction_is_never_a_reason_to_pause(scenario: QuotaScenario) -> None:
    await scenario.limit(request_percentage=0.0001)
    async with await Connection.open(scenario.address, client_id=scenario.client_id) as connection:
        for _ in range(3):
            answer = await connection.request(ApiKey.END_TXN, EndTxnRequest("tx"), version=4, timeout_ms=500)
            assert answer.throttle_time_ms == 0


async def test_a_fetch_over_its_quota_is_empty_and_told_to_pause(scenario: QuotaScenario) -> None:
    first, second, third = await scenario.of_fetch()
    assert first == 0
    assert second == pytest.approx(2000, rel=0.2)
    assert third == pytest.approx(second, rel=0.2), "what was not sent is not counted"


async def test_a_record_larger_than_any_window_is_delivered(scenario: QuotaScenario) -> None:
    await scenario.filled(0)
    await scenario.produce(size=1_000_000)
    await scenario.limit(consumer_byte_rate=1024)
    answer = await scenario.fetch(offset=1)
    assert len(answer.responses[0].partitions[0].records or b"") > 1_000_000
    assert (await scenario.fetch(offset=1)).throttle_time_ms == 15_000


async def test_a_share_fetch_over_its_quota_is_sent_since_its_records_are_acquired_and_its_client_pauses(
    broker: VirtualBroker, scenario: QuotaScenario
) -> None:
    wire = await Wire.open(broker.address, client_id=scenario.client_id)
    change = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    group = AlterConfigsResource(32, "workers", (change,))
    assert (await wire.ask(IncrementalAlterConfigsRequest((group,)), 1)).responses[0].error_code == 0
    await scenario.filled(0)
    for _ in range(3):
        await scenario.produce(size=100_000)
    member = await ShareMember(wire, "workers").joined(scenario.topic)
    ((topic_id, partition),) = member.assigned
    await scenario.limit(consumer_byte_rate=1024)
    throttled: list[int] = []
    for epoch in range(2):
        request = ShareFetchRequest(
            group_id="workers",
            member_id=member.member_id,
            share_session_epoch=epoch,
            max_wait_ms=5000,
            min_bytes=1,
            max_records=1,
            batch_size=1,
            topics=(FetchTopic(topic_id, (FetchPartition(partition),)),) if epoch == 0 else (),
        )
        answer = await wire.ask(request, 2)
        assert answer.responses[0].partitions[0].acquired_records
        assert len(answer.responses[0].partitions[0].records or b"") > 0
        throttled.append(answer.throttle_time_ms)
    await wire.close()
    assert throttled[-1] == 15_000


async def test_changes_of_topics_are_refused_when_the_tokens_are_gone(scenario: QuotaScenario) -> None:
    told = await scenario.of_changes()
    assert [code for code, _ in told] == [0, *[ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2]
    assert told[0][1] == 0, "who may still overdraw does not pause"
    for _, throttle_ms in told[1:]:
        assert throttle_ms == pytest.approx(4000, rel=0.2)


async def test_older_clients_change_topics_and_pause(scenario: QuotaScenario) -> None:
    await scenario.limit(controller_mutation_rate=1)
    answers = [await scenario.create(f"{scenario.topic}-{each}", 15, version=5) for each in range(2)]
    assert [answer.topics[0].error_code for answer in answers] == [0, 0]
    assert [round(answer.throttle_time_ms, -3) for answer in answers] == [4000, 15000]


async def test_a_topic_that_comes_by_being_named_counts_and_its_client_pauses(scenario: QuotaScenario) -> None:
    await scenario.limit(controller_mutation_rate=0.05)
    throttles = []
    for number in (1, 2, 2):
        named = MetadataRequest(topics=(MetadataRequestTopic(name=f"{scenario.topic}-auto-{number}"),))
        answer = await scenario.ask(ApiKey.METADATA, named, 8)
        assert answer.topics[0].error_code == ErrorCode.NONE
        throttles.append(answer.throttle_time_ms)
    assert throttles[0] > 0, "one partition is more than twenty seconds' worth of a twentieth"
    assert throttles[1] > 0
    assert throttles[2] == 0, "to name what is there costs nothing"


async def test_a_topic_that_is_refused_for_another_reason_costs_nothing(scenario: QuotaScenario) -> None:
    await scenario.limit(controller_mutation_rate=1)
    for _ in range(3):
        answer = await scenario.create("not/a/name", 15)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)


async def test_several_topics_that_come_by_being_named_come_while_there_are_tokens(scenario: QuotaScenario) -> None:
    await scenario.limit(controller_mutation_rate=1)
    told = []
    for each in range(2):
        names = tuple(MetadataRequestTopic(name=f"{scenario.topic}-{each}-{index}") for index in range(30))
        answer = await scenario.ask(ApiKey.METADATA, MetadataRequest(topics=names, allow_auto_topic_creation=True), 9)
        told.append(({topic.error_code for topic in answer.topics}, answer.throttle_time_ms > 0))
    assert told == [({ErrorCode.NONE}, True), ({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, True)]


async def test_a_request_of_many_names_costs_its_time_before_it_runs(
    scenario: QuotaScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforcement, "MANY_ITEMS", 1000)  # a longer response would be written in a thread
    await scenario.limit(request_percentage=0.001)
    names = tuple(f"group-{index}" for index in range(1001))
    many, few = DescribeGroupsRequest(groups=names), DescribeGroupsRequest(groups=names[:1])
    first, second, small = [await scenario.ask(ApiKey.DESCRIBE_GROUPS, each, 5) for each in (many, many, few)]
    assert {group.error_code for group in first.groups} == {ErrorCode.NONE}
    assert first.throttle_time_ms > 0
    assert {group.error_code for group in second.groups} == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert small.groups[0].error_code == ErrorCode.NONE, "what is small may overdraw"
