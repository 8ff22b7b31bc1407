"""A broker worked for two cycles of misfortunes. `make soak` does the same for an hour."""

import os
from pathlib import Path

import pytest
from soak import soak


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(400)
async def test_a_broker_under_load_for_long_loses_nothing_and_does_not_grow(tmp_path: Path) -> None:
    seed = int(os.environ.get("EOSIN_SOAK_SEED") or 1)
    print(f"EOSIN_SOAK_SEED={seed}; what is left is in {tmp_path}")
    figures = await soak(tmp_path, seed=seed, cycles=2, durability="fsync")
    print("\n".join(figures.lines()))
    assert set(figures.happened.values()) == {2}
    assert figures.committed > 0
