"""Kills of a query of `format("eosin")` at random steps of its protocol: `make proof-pipeline`.

    python tests/support/pipeline_kills.py --kills 100 [--seed 7] [--only executor,broker] [--minutes 30]

Each round has a topic to copy, and a query that is started again after each kill until it has ended by itself: then
each row must be in the output once. Killed are, in turn, the driver alone, the driver with its Python workers, one of
two executors, and the broker. Ends with 1 for the first round with a row too many or too few, or with a planned kill
that found nobody; its folder is kept.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final, Literal

import pipeline_driver
from local_broker import ThreadedBroker
from outage import BrokerWithOutages, Outage
from pipeline_copier import ROWS, Copier, Kill, Killer, Step
from proof.reporting import report_failure, report_figures
from waiting import wait_until

from eosin.protocol.keys import ApiKey

VICTIMS: Final = ("driver", "driver and workers", "executor", "broker")
STEPS: Final = (ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE, ApiKey.END_TXN)
WHEN: Final[tuple[Literal["before"], Literal["after"]]] = ("before", "after")
_KILLS_OF_A_ROUND: Final = 3
_CLUSTER: Final = ("--master", "local-cluster[2,1,700]", "--rows", "4")  # more batches than kills


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a query, its executors and its broker.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(VICTIMS), help="who is killed, with commas between")
    parser.add_argument("--minutes", type=float, default=0, help="stop after the round at which this time is over")
    options = parser.parse_args()
    victims = options.only.split(",")
    if unknown := set(victims) - set(VICTIMS):
        parser.error(f"--only: there is no victim {min(unknown)!r}: there are {', '.join(VICTIMS)}")
    chance, killed, rows, began = random.Random(options.seed), Counter[str](), 0, time.monotonic()
    round_number = 0
    while killed.total() < options.kills:
        victim = victims[round_number % len(victims)]
        folder = Path(tempfile.mkdtemp(prefix="eosin-pipeline-kills-"))
        happened = broker_round(folder, chance) if victim == "broker" else driver_round(folder, victim, chance)
        if happened is None:
            report_failure(f"round {round_number} ({victim}, seed {options.seed}) is not exact", f"{folder}")
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        killed[victim] += happened
        rows += ROWS
        round_number += 1
        took = time.monotonic() - began
        print(f"round {round_number}: {happened} kills ({victim}), {killed.total()} in all, {took:.0f} s", flush=True)
        if options.minutes and took > options.minutes * 60:
            break
    figures = {"kills": dict(killed), "rounds": round_number, "rows": rows, "lost": 0, "doubled": 0}
    print(json.dumps(figures))
    report_figures(**figures)
    return 0


def driver_round(folder: Path, victim: str, chance: random.Random) -> int | None:
    """Kill a driver some times, or executors of one that goes on; returns how often, None if the round is no proof."""
    killer = Killer()
    killer.workers_too = victim == "driver and workers"
    killer.executor_only = victim == "executor"
    # An executor is killed while it reads, too; of the producer's id a driver that goes on has need once.
    steps = (ApiKey.FETCH, *STEPS[1:]) if killer.executor_only else STEPS
    kills = [Kill(chance.choice(WHEN), step(chance.choice(steps))) for _ in range(_KILLS_OF_A_ROUND)]
    with ThreadedBroker(hooks=killer) as broker:
        copier = Copier(folder, killer, broker)
        for planned in [kills] if killer.executor_only else [[each] for each in kills]:
            killer.plan(planned)
            copier.run(pipeline_driver.FORMAT, *(_CLUSTER if killer.executor_only else ()))
        killer.plan(())
        code, _ = copier.run(pipeline_driver.FORMAT)
        return killer.happened if is_exact(copier, code, killer.happened) else None


def broker_round(folder: Path, chance: random.Random) -> int | None:
    """Kill the broker some times during one run of the query, which goes on."""
    with BrokerWithOutages(folder) as broker:
        copier = Copier(folder, Killer(), broker)
        outages = [Outage(chance.choice(WHEN), chance.choice(STEPS[1:])) for _ in range(_KILLS_OF_A_ROUND)]
        broker.plan(pipeline_driver.PIPELINE, outages)
        code, _ = copier.run(pipeline_driver.FORMAT)
        return len(broker.states) if is_exact(copier, code, len(broker.states)) else None


def step(key: ApiKey) -> Step:
    """The requests of the pipeline to an API; a commit, not an abort."""
    if key is ApiKey.FETCH:
        return lambda seen, _: seen is key  # nobody else reads while a query runs
    return lambda seen, request: (
        seen is key
        and request.transactional_id == pipeline_driver.PIPELINE
        and (key is not ApiKey.END_TXN or request.committed)
    )


def is_exact(copier: Copier, code: int, kills: int) -> bool:
    """True if the planned kills happened, the query has ended by itself, and each row is there once."""
    if kills != _KILLS_OF_A_ROUND:
        print(f"{kills} of {_KILLS_OF_A_ROUND} planned kills found somebody", file=sys.stderr)
    elif code == 0:
        try:
            wait_until(copier.is_complete)
        except AssertionError:
            pass
        else:
            return True
    print(copier.log, file=sys.stderr)
    return False


if __name__ == "__main__":
    sys.exit(main())
