"""Replication end to end on logs, with seeds that replay (cluster.md 10)."""

from typing import Any

import pytest
from replicated_partition import Violation, World

from eosin.cluster.replication import followed_replica
from eosin.cluster.replication.rules import followed_partition, high_watermark, leading
from eosin.cluster.replication.rules.truncation import Truncation


async def run(seed: int, *, steps: int = 600, brokers: int = 3) -> World:
    world = World(seed, brokers=brokers)
    await world.open()
    try:
        await world.run(steps)
        await world.calm()
        world.check_nothing_lost()
    finally:
        await world.close()
    return world


@pytest.mark.parametrize("seed", range(30))
async def test_committed_records_survive_crashes_and_lost_messages_on_two_brokers(seed: int) -> None:
    await run(seed, brokers=2)


@pytest.mark.parametrize("seed", range(30))
async def test_committed_records_survive_crashes_and_lost_messages_on_three_brokers(seed: int) -> None:
    await run(seed)


# Planted defects: each must be found, or the seeds above prove nothing ------------------------------------------------


async def found_within(seeds: range, *, brokers: int = 3) -> int | None:
    """The first of these seeds whose run breaks a promise."""
    for seed in seeds:
        try:
            await run(seed, brokers=brokers)
        except (Violation, AssertionError):
            return seed
    return None


async def test_a_follower_that_fetches_ahead_of_its_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (followed_partition, followed_replica):
        monkeypatch.setattr(module, "is_durable", lambda _: True)
    assert await found_within(range(40)) is not None


async def test_a_leader_that_counts_itself_ahead_of_its_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = high_watermark.next_high_watermark

    def ahead(led: Any, present: int, **others: Any) -> int:
        return sound(led, present, **{**others, "durable_end": others["log_end"]})

    monkeypatch.setattr(leading, "next_high_watermark", ahead)
    assert await found_within(range(40)) is not None


async def test_a_follower_that_keeps_what_its_leader_never_had_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        followed_partition, "truncation_for", lambda _, log: Truncation(log.log_end_offset, is_final=True)
    )
    assert await found_within(range(40)) is not None
