"""Damaged frames: whatever comes in, the broker serves on. The long runs are `make fuzz`."""

import pytest
from fuzz_broker import fuzz


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
