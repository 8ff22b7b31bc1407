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

pytestmark = pytest.mark.slow
RECORDS = 100
KILLS = 5


async def rejected_one_by_one(group: LetterGroup, most: int) -> tuple[set[int], set[int]]:
    """Reject up to so many of the records that a new member gets, each by itself, and wait for no letter. Returns the
    offsets whose rejection was answered, and all that were delivered."""
    answered: set[int] = set()
    member = await group.fetcher()
    delivered = {each for first, last, _ in await member.fetch(max_records=200) for each in range(first, last + 1)}
    for offset in sorted(delivered)[:most]:
        try:
            if await member.acknowledge((offset, offset, (REJECT,))) is NONE:
                answered.add(offset)
        except BROKEN:
            break
    return answered, delivered


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_every_record_whose_rejection_was_answered_has_a_letter_after_kills(
    tmp_path: Path, durability: str
) -> None:
    chosen = random.Random(7)
    answered: set[int] = set()
    with BrokerProcess(tmp_path / "data", durability=durability, settings=SETTINGS) as broker:
        group = LetterGroup(broker.address)
        await group.begin(await group.connected(), RECORDS)
        for kill in range(KILLS):
            rejecting = asyncio.ensure_future(rejected_one_by_one(group, RECORDS // KILLS))
            if kill % 2:
                await asyncio.sleep(chosen.uniform(0, 0.05))  # in the midst of them
            else:
                await asyncio.wait([rejecting])
            await asyncio.to_thread(broker.kill)
            try:
                some, delivered = await rejecting
            except BROKEN:
                some, delivered = set(), set()
            assert not delivered & answered, "a rejected record was delivered again"
            answered |= some
            await asyncio.to_thread(broker.start)
        left, delivered = await rejected_one_by_one(group, RECORDS)
        assert not delivered & answered
        answered |= left
        wire = await group.connected()

        async def all_have_letters() -> bool:
            return answered <= (await group.letters(wire)).keys()

        await until(all_have_letters)
        assert len(answered) >= RECORDS // KILLS * 3
        found = await group.letters(wire)
        assert found.keys() <= set(range(RECORDS))
        print(f"{len(answered)} answered, {found.total()} letters of {len(found)} records")


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
