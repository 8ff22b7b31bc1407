"""Damaged frames: whatever comes in, the broker serves on. The long runs are `make fuzz`."""

import asyncio

import fuzz_requests
import pytest
from fuzz_broker import LIMITS, fuzz
from fuzz_members import KINDS, NEWER, Members
from fuzz_security import SecuredTarget

pytestmark = pytest.mark.process


async def test_thousands_of_damaged_frames_harm_nobody() -> None:
    outcome = await fuzz(frames=4000, seed=20_260_517)
    assert outcome.failures == []
    assert outcome.frames == 4000
    assert outcome.connections > 100, "most frames are bad enough to close their connection"


@pytest.mark.slow
async def test_damaged_frames_over_sockets_harm_nobody() -> None:
    outcome = await fuzz(frames=3000, seed=5, sockets=True)
    assert outcome.failures == []
    assert outcome.frames == 3000


async def test_damaged_frames_of_those_with_and_without_rights_harm_nobody() -> None:
    outcome = await fuzz(frames=2000, seed=7, first_chunk=1)  # its broker has an authorizer
    assert outcome.failures == []


@pytest.mark.slow
async def test_members_of_all_kinds_of_groups_in_any_order_harm_nobody() -> None:
    outcome = await fuzz(frames=300, seed=2, members=True)
    assert outcome.failures == []
    assert outcome.frames == 300


@pytest.mark.slow
@pytest.mark.full
async def test_members_who_know_what_they_were_told_reach_every_request_of_newer_groups() -> None:
    async with Members.started(1, **LIMITS) as members:
        for _ in range(1500):
            await members.ask()
    assert members.failures == []
    assert {key.name for kind in NEWER for key in KINDS[kind]} <= {key.name for key in members.reached}


@pytest.mark.slow
async def test_attacks_on_tls_and_on_logins_harm_nobody_and_let_nobody_in() -> None:
    outcome = await fuzz(frames=400, seed=11, security=True)
    assert outcome.failures == []
    assert outcome.connections == 400


@pytest.mark.slow
async def test_somebody_who_was_let_in_would_be_noticed() -> None:
    async with SecuredTarget(1) as target:
        assert await asyncio.to_thread(target.notices)


@pytest.mark.slow
async def test_a_large_request_that_takes_too_long_is_told_with_the_command_that_sends_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fuzz_requests, "MOST_S", 0.0)
    outcome = await fuzz(frames=1, seed=3, first_chunk=2, large=True)
    failure, again = outcome.failures
    assert "one step takes more than 0 ms" in failure
    assert again == "again: fuzz_broker.py --large --seed 3 --first-chunk 2 --frames 50"
