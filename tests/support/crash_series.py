"""A series of rounds in which the broker is killed with kill -9 and started again, on one data directory.

In each round it is killed at a moment that the seed chooses, now and then also while it starts.
"""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import disturbed_series
from crash_sharing import SETTINGS
from disturbed_series import FINISH_WITHIN_S, READY_WITHIN_S, RECORDS, DisturbedSeries

KILLED_WHILE_STARTING = 0.2


@dataclass
class Figures(disturbed_series.Figures):
    """The figures of one or many series."""

    kills: int = 0
    kills_while_starting: int = 0
    ready_ms: list[int] = field(default_factory=list)
    """From the start of the process until it is ready, after each kill."""

    def of_book(self) -> dict[str, Any]:
        """The figures for the book of a long proof; of the starts the median and the longest."""
        ready = sorted(self.ready_ms) or [0]
        figures = {name: value for name, value in vars(self).items() if name not in ("ready_ms", "seconds")}
        return {**figures, "ready_ms": [ready[len(ready) // 2], ready[-1]]}

    def lines(self) -> list[str]:
        """The figures for people."""
        ready = sorted(self.ready_ms) or [0]
        return [
            *super().lines(),
            f"{self.kills} kills, {self.kills_while_starting} of them while starting; "
            f"ready after a kill: p50 {ready[len(ready) // 2]} ms, max {ready[-1]} ms",
        ]


class CrashSeries(DisturbedSeries[Figures]):
    """One broker, one directory, some rounds. `run` once."""

    def __init__(
        self,
        directory: Path,
        *,
        seed: int,
        rounds: int,
        durability: str,
        records: int = RECORDS,
        finish_within_s: float = FINISH_WITHIN_S,
        shares: bool = False,
    ) -> None:
        """`records` per partition and round. Everything is kept below `directory`. If it `shares`, a share group is
        among the clients."""
        if shares:
            self.settings = SETTINGS
        super().__init__(
            directory,
            Figures(),
            seed=seed,
            rounds=rounds,
            durability=durability,
            records=records,
            finish_within_s=finish_within_s,
            shares=shares,
        )

    async def _disturb(self, number: int) -> None:
        await self._kill_and_start()

    async def _disturb_at_the_end(self) -> None:
        await self._kill_and_start()

    async def _kill_and_start(self) -> None:
        await asyncio.to_thread(self._broker.kill)
        self.figures.kills += 1
        while self._chance.random() < KILLED_WHILE_STARTING:
            self._broker.launch()
            await asyncio.sleep(self._chance.uniform(0, 0.6))
            await asyncio.to_thread(self._broker.kill)
            self.figures.kills += 1
            self.figures.kills_while_starting += 1
        began = time.monotonic()
        await asyncio.to_thread(self._broker.start, READY_WITHIN_S)
        self.figures.ready_ms.append(round((time.monotonic() - began) * 1000))
