"""Logs that a broker of a cluster has lost, or cannot write: it does not lead them before it has copied them again
(cluster.md 4.18, 4.19). Whole brokers on simulated disks; `tests/clusters/test_directories.py` has real ones."""

from collections.abc import AsyncIterator

import pytest
from virtual_cluster import VirtualPair

pytestmark = pytest.mark.virtual

FIRST, SECOND = VirtualPair.node_ids


@pytest.fixture
async def pair() -> AsyncIterator[VirtualPair]:
    """The first broker loses something; the second is sound."""
    async with VirtualPair() as made:
        yield made


async def test_a_log_that_was_deleted_is_not_led_before_it_is_copied_again(
    pair: VirtualPair, caplog: pytest.LogCaptureFixture
) -> None:
    partition = await pair.create()
    sent = [b"%d" % number for number in range(200)]
    await pair.write(partition, *sent[:100])
    await pair.first.stop()
    pair.first.disk.remove_tree(pair.first.folder(partition))
    await pair.write(partition, *sent[100:])
    await pair.first.start()
    assert f"{partition} is declared lost on this broker" in caplog.text
    await pair.in_sync(partition, FIRST, SECOND)
    pair.second.kill()
    await pair.led_by(partition, FIRST)
    assert await pair.read(partition) == sent


async def test_a_damaged_log_is_set_aside_and_copied_again(pair: VirtualPair, caplog: pytest.LogCaptureFixture) -> None:
    partition = await pair.create()
    sent = [b"%d" % number for number in range(100)]
    await pair.write(partition, *sent)
    await pair.first.stop()
    disk, segment = pair.first.disk, f"{pair.first.folder(partition)}/{0:020d}.log"
    whole = disk.read_whole(segment)
    disk.write_atomic(segment, whole[: len(whole) // 2])
    await pair.first.start()
    assert f"{partition} is declared lost on this broker" in caplog.text
    await pair.in_sync(partition, FIRST, SECOND)
    assert [
        each
        for each in pair.first.disk.list(pair.first.data_dir)
        if each.startswith(partition.topic) and "-stray" in each
    ]
    assert await pair.read(partition) == sent


async def test_another_broker_leads_what_fails_while_its_leader_runs(pair: VirtualPair) -> None:
    partition, sound = await pair.create(segment_bytes="1048576"), await pair.create()
    await pair.write(partition, b"before")
    pair.first.disk.remove_tree(pair.first.folder(partition))  # its next segment cannot be made
    large = [b"%d " % number + bytes(500_000) for number in range(4)]
    await pair.write(partition, *large)
    assert (pair.now(partition).leader, pair.now(partition).isr) == (SECOND, (SECOND,))
    assert await pair.read(partition) == [b"before", *large]
    assert pair.now(sound).leader == FIRST
    assert pair.first.runs
    pair.first.kill()
    await pair.first.start()
    await pair.in_sync(partition, FIRST, SECOND)


async def test_a_broker_that_comes_back_with_an_empty_disk_follows_from_scratch(pair: VirtualPair) -> None:
    partition = await pair.create()
    sent = [b"%d" % number for number in range(100)]
    await pair.write(partition, *sent)
    pair.first.kill()
    pair.first.replace_disk()
    await pair.first.start()
    await pair.in_sync(partition, FIRST, SECOND)
    pair.second.kill()
    await pair.led_by(partition, FIRST)
    assert await pair.read(partition) == sent
