"""An administrator gives the broker's own topics settings that do not suit them, in the middle of a transaction: the
transaction ends all the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from asked_broker import KILLED
from virtual_broker import OwnBroker, own_broker
from waiting import until
from wire import Wire, data_offsets, unique
from wire_producer import transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
A_TOPIC = 2
SET = 0
TINY = "100"
SUITABLE = {
    "min.insync.replicas": "3",
    "retention.ms": "1",
    "retention.bytes": "1",
    "segment.ms": "1",
    "compression.type": "gzip",
    "message.timestamp.type": "LogAppendTime",
    "message.timestamp.after.max.ms": "0",
    "max.compaction.lag.ms": "1",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0",
}
"""What changes nothing for a transaction."""


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[OwnBroker]:
    """A broker of the test's own, whose internal topics nobody else needs."""
    async with own_broker(tmp_path / "odd") as broker:
        yield broker


@pytest.fixture
async def odd_wire(odd: OwnBroker) -> AsyncIterator[Wire]:
    opened = await Wire.open(odd.address)
    yield opened
    await opened.close()


async def set_configs(wire: Wire, topic: str, configs: dict[str, str]) -> ErrorCode:
    changes = tuple(AlterableConfig(name, SET, value) for name, value in configs.items())
    request = IncrementalAlterConfigsRequest((AlterConfigsResource(A_TOPIC, topic, changes),))
    answer = await wire.ask(request, 1)
    return ErrorCode(answer.responses[0].error_code)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(("setting", "commit"), [("max.message.bytes", True), ("internal.segment.bytes", False)])
async def test_a_transaction_ends_though_its_record_has_become_too_large(
    odd_wire: Wire, level: int, commit: bool, setting: str
) -> None:
    """With Apache Kafka it can neither be committed nor aborted, and holds up its readers."""
    wire = odd_wire
    topic = await wire.topic(30)
    partitions = [TopicPartition(topic, index) for index in range(30)]
    producer = await transactional(wire, level=level)
    if level == 1:
        assert await producer.add(*partitions[:20]) == NONE
    for each in partitions[:20]:
        await producer.append(each)
    assert await set_configs(wire, TRANSACTION_STATE_TOPIC, {setting: TINY}) == NONE
    assert await producer.add(*partitions[20:]) == ErrorCode.UNKNOWN_SERVER_ERROR
    answer = await producer.end(commit=commit)
    assert answer.error_code == NONE
    for each in partitions[:20]:
        await wire.until_stable(each, 2)
        found = await wire.fetch_committed(each)
        assert data_offsets(found.records) == [0]
        assert len(found.aborted_transactions or ()) == (0 if commit else 1)
    await producer.completed()
    assert (await wire.init(producer.transactional_id)).error_code == NONE


async def test_a_transaction_runs_out_of_time_though_its_record_has_become_too_large(
    odd: OwnBroker, odd_wire: Wire
) -> None:
    """After a restart with that setting, too."""
    partition = await odd_wire.partition()
    producer = await transactional(odd_wire, timeout_ms=1000)
    await producer.append(partition)
    assert await set_configs(odd_wire, TRANSACTION_STATE_TOPIC, {"max.message.bytes": TINY}) == NONE
    await odd.restart(KILLED)
    wire = await Wire.open(odd.address)
    try:
        await wire.until_stable(partition, 2)
        assert len((await wire.fetch_committed(partition)).aborted_transactions or ()) == 1
        assert (await wire.init(producer.transactional_id)).error_code == NONE
    finally:
        await wire.close()


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("topic", [TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC])
async def test_other_settings_change_nothing_for_a_transaction(
    odd: OwnBroker, odd_wire: Wire, level: int, topic: str
) -> None:
    """All of them at once, set between its first step and its next, and the broker is killed behind it."""
    partition, group = await odd_wire.partition(), unique("group")
    producer = await transactional(odd_wire, level=level)
    if level == 1:
        assert await producer.add(partition) == NONE
        assert await producer.add_offsets(group) == NONE
    await producer.append(partition)
    for name, value in SUITABLE.items():
        assert await set_configs(odd_wire, topic, {name: value}) == NONE, name
    assert await producer.commit_offsets(group, partition, 1) == NONE
    await producer.append(partition)
    await producer.commit()
    await odd.restart(KILLED)
    wire = await Wire.open(odd.address)
    try:
        await wire.until_stable(partition, 3)
        found = await wire.fetch_committed(partition)
        assert (data_offsets(found.records), found.aborted_transactions or ()) == ([0, 1], ())
        asked = OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group, topics=(OffsetFetchRequestTopics(partition.topic, partition_indexes=(0,)),)
                ),
            ),
            require_stable=True,
        )

        async def is_committed() -> bool:
            answer = (await wire.ask(asked, 8)).groups[0]
            return not answer.error_code and [each.committed_offset for each in answer.topics[0].partitions] == [1]

        await until(is_committed)
        producer.wire = wire
        await producer.completed()
        assert (await wire.init(producer.transactional_id)).producer_id == producer.producer_id
    finally:
        await wire.close()


@pytest.mark.parametrize("topic", [TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC])
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
async def test_nobody_may_have_transactions_or_offsets_deleted_by_their_age(
    odd_wire: Wire, topic: str, policy: str
) -> None:
    assert await set_configs(odd_wire, topic, {"cleanup.policy": policy}) == ErrorCode.INVALID_CONFIG
