"""Dead letters (KIP-1191) of a broker that is killed, or whose disk is full: each record whose rejection was answered
has one at least, and is not delivered again."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from letter_group import BROKEN, SETTINGS, LetterGroup
from small_disk import NotMounted, fill, small_disk
from waiting import until
from wire_share_fetcher import NONE, REJECT

from eosin.runtime.turns import next_turn

pytestmark = pytest.mark.slow
RECORDS = 100
KILLS = 5


async def reject_one_by_one(group: LetterGroup, most: int, delivered: set[int], answered: set[int]) -> None:
    """Reject up to so many of the records that a new member gets, each by itself, and wait for no letter. Adds the
    offsets that were delivered, and those whose rejection was answered."""
    try:
        member = await group.fetcher()
        for first, last, _ in await member.fetch(max_records=200):
            delivered.update(range(first, last + 1))
        for offset in sorted(delivered)[:most]:
            if await member.acknowledge((offset, offset, (REJECT,))) is NONE:
                answered.add(offset)
    except BROKEN:
        pass


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_every_record_whose_rejection_was_answered_has_a_letter_after_kills(
    tmp_path: Path, durability: str
) -> None:
    chosen, most = random.Random(7), RECORDS // KILLS
    answered: set[int] = set()
    with BrokerProcess(tmp_path / "data", durability=durability, settings=SETTINGS) as broker:
        group = LetterGroup(broker.address)
        await group.begin(await group.connected(), RECORDS)
        for life in range(KILLS + 1):
            some: set[int] = set()
            delivered: set[int] = set()
            is_last = life == KILLS
            rejecting = asyncio.ensure_future(reject_one_by_one(group, RECORDS if is_last else most, delivered, some))
            enough = most if life % 2 else chosen.randrange(1, most)  # in the midst of them, and right behind the last
            while not rejecting.done() and (is_last or len(some) < enough):
                await next_turn()
            if not is_last:
                await asyncio.to_thread(broker.kill)
            await rejecting
            assert not delivered & answered, "a rejected record was delivered again"
            answered |= some
            if not is_last:
                await asyncio.to_thread(broker.start)
        wire = await group.connected()

        async def all_have_letters() -> bool:
            return (await group.letters(wire)).keys() == set(range(RECORDS))

        await until(all_have_letters)  # also of a rejection whose answer was lost
        print(f"{len(answered)} answered, {(await group.letters(wire)).total()} letters of {RECORDS} records")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    try:
        with small_disk(tmp_path / "disk", mebibytes=4) as place:
            yield place
    except NotMounted as failure:
        pytest.skip(str(failure))


async def test_records_rejected_before_and_on_a_full_disk_have_letters_once_there_is_space(disk: Path) -> None:
    with BrokerProcess(disk / "data", settings=SETTINGS) as broker:
        group = LetterGroup(broker.address)
        wire = await group.connected()
        await group.begin(wire, 200, size=1000)
        member = await group.fetcher()
        assert await member.fetch(max_records=200) == [(0, 199, 1)]
        assert await member.acknowledge((0, 99, (REJECT,))) is NONE
        ballast = disk / "ballast"
        fill(ballast)
        is_rejected = await member.acknowledge((100, 199, (REJECT,))) is NONE  # there is room for its state, or none
        await until(lambda: is_rejected is False or "dead letters cannot be written" in broker.log)
        assert len(await group.letters(wire)) < 200
        ballast.unlink()

        async def are_rejected() -> bool:
            return is_rejected or await member.acknowledge((100, 199, (REJECT,))) is NONE

        await until(are_rejected)

        async def all_have_letters() -> bool:
            return (await group.letters(wire)).keys() == set(range(200))

        await until(all_have_letters)
