"""Leader epochs on the wire: every API reports the same one, and refuses any other (storage.md 17)."""

import pytest
from virtual_broker import VirtualBroker
from wire import LATEST, Wire, unique

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE


@pytest.fixture
async def virtual_address() -> str:
    """Address of a broker that has started before: there is a leader epoch before the present one."""
    broker = VirtualBroker({})
    await broker.start()
    await broker.restart()
    return broker.address


@pytest.fixture
async def partition(wire: Wire) -> TopicPartition:
    made = await wire.partition()
    await wire.append(made, 3)
    return made


@pytest.fixture
async def epoch(wire: Wire, partition: TopicPartition) -> int:
    """The partition's leader epoch, as Metadata tells it."""
    answer = await wire.ask(MetadataRequest(topics=(MetadataRequestTopic(name=partition.topic),)), 12)
    found: int = answer.topics[0].partitions[0].leader_epoch
    assert found >= 0
    return found


async def end_of_epoch(
    wire: Wire, partition: TopicPartition, epoch: int, *, current: int = -1, version: int = 4
) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(partition.partition, current, epoch)
    topics = (OffsetForLeaderTopic(partition.topic, (asked,)),)
    answer = await wire.ask(OffsetForLeaderEpochRequest(-1, topics), version)
    found: EpochEndOffset = answer.topics[0].partitions[0]
    return found


async def test_metadata_list_offsets_and_stored_batches_agree(
    wire: Wire, partition: TopicPartition, epoch: int
) -> None:
    assert (await wire.list_offset(partition, LATEST)).leader_epoch == epoch
    stored = bytes((await wire.fetch(partition)).records or b"")
    assert int.from_bytes(stored[12:16], "big", signed=True) == epoch


async def test_the_current_epoch_is_accepted(wire: Wire, partition: TopicPartition, epoch: int) -> None:
    assert (await wire.fetch(partition, leader_epoch=epoch)).error_code == NONE
    assert (await wire.list_offset(partition, LATEST, leader_epoch=epoch)).error_code == NONE


@pytest.mark.parametrize("ahead", [1, 1000])
async def test_a_future_leader_epoch_is_unknown(wire: Wire, partition: TopicPartition, epoch: int, ahead: int) -> None:
    unknown = ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await wire.fetch(partition, leader_epoch=epoch + ahead)).error_code == unknown
    assert (await wire.list_offset(partition, LATEST, leader_epoch=epoch + ahead)).error_code == unknown
    assert (await end_of_epoch(wire, partition, epoch, current=epoch + ahead)).error_code == unknown


async def test_an_old_leader_epoch_is_fenced(wire: Wire, partition: TopicPartition, epoch: int) -> None:
    if epoch == 0:
        pytest.skip("this is the leader's first epoch")
    fenced = ErrorCode.FENCED_LEADER_EPOCH
    assert (await wire.fetch(partition, leader_epoch=epoch - 1)).error_code == fenced
    assert (await wire.list_offset(partition, LATEST, leader_epoch=epoch - 1)).error_code == fenced
    assert (await end_of_epoch(wire, partition, epoch, current=epoch - 1)).error_code == fenced


async def test_old_versions_carry_no_leader_epochs_and_are_not_checked(
    wire: Wire, partition: TopicPartition, epoch: int
) -> None:
    assert (await wire.fetch(partition, leader_epoch=epoch + 1, version=8)).error_code == NONE
    assert (await wire.list_offset(partition, LATEST, leader_epoch=epoch + 1, version=3)).error_code == NONE


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_the_present_epoch_ends_at_the_end_of_the_log(
    wire: Wire, partition: TopicPartition, epoch: int, version: int
) -> None:
    found = await end_of_epoch(wire, partition, epoch, version=version)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (NONE, epoch, 3)


async def test_the_end_of_a_future_epoch_is_undefined(wire: Wire, partition: TopicPartition, epoch: int) -> None:
    found = await end_of_epoch(wire, partition, epoch + 1)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (NONE, -1, -1)


async def test_the_end_of_an_unknown_partitions_epoch_is_an_error(wire: Wire) -> None:
    found = await end_of_epoch(wire, TopicPartition(unique("no"), 0), 0)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (found.leader_epoch, found.end_offset) == (-1, -1)
