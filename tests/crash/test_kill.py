"""kill -9 at five moments at each durability: nothing acknowledged is lost, nothing is there twice, no transaction is
half visible.

EOSIN_CRASH_SEED draws other moments. `make crash` does the same for hours.
"""

import os
from pathlib import Path

import pytest
from crash_series import CrashSeries

ROUNDS = 5


@pytest.mark.slow
@pytest.mark.parametrize("durability", [pytest.param("fsync", marks=pytest.mark.smoke), "os"])
async def test_clients_of_a_killed_broker_get_every_record_exactly_once(tmp_path: Path, durability: str) -> None:
    seed = int(os.environ.get("EOSIN_CRASH_SEED") or 1)
    print(f"EOSIN_CRASH_SEED={seed}; what is left is in {tmp_path}")
    figures = await CrashSeries(tmp_path, seed=seed, rounds=ROUNDS, durability=durability, records=200).run()
    print("\n".join(figures.lines()))
    assert figures.rounds == ROUNDS
    assert figures.kills > ROUNDS
    # The killing was in the midst of work.
    assert figures.committed > ROUNDS
    assert figures.aborted > 0
