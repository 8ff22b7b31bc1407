"""A series of rounds against one data directory: clients at work, disturbed round by round, and at the end every count.

A subclass says what disturbs them; clients are not told. Always true at the end: the copiers' output is their input,
once each and in order per partition; their groups' offsets are the length of the input; nothing that was acknowledged
is missing; and `eosin check` finds nothing.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Self, TypeVar

import copier
from broker_process import BrokerProcess
from crash_load import Committer, Ends, Feeder, LiveReader, committed_offset, until
from crash_sharing import Sharer
from free_ports import free_port
from real_clients import confluent
from real_clients.base import read_all
from scenario import Scenario
from waiting import HANG_S

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import batches, read_control_record

COPIERS = ("confluent-kafka", "kafka-python", "aiokafka", "eosin")
"""One for each partition. The last is here for TV2, which the others do not speak."""
SOURCE, TARGET = "input", "output"
RECORDS = 300
"""Per partition and round."""
LARGEST_BATCH = 40
STUCK_AFTER_S = 5
FINISH_WITHIN_S = 150
"""For the copiers, from the last round on, in a test."""
READY_WITHIN_S = 600
"""For a broker. This loop proves what is there after a start, not how soon."""


@dataclass
class Figures:
    """The figures of one or many series."""

    rounds: int = 0
    records: int = 0
    """Acknowledged to the idempotent producer, and copied."""
    committed: int = 0
    """Transactions."""
    aborted: int = 0
    plain_commits: int = 0
    shared: int = 0
    """Acknowledged by members of a share group."""
    letters: int = 0
    """Those of them that were rejected, which have dead letters."""
    copiers_restarted: int = 0
    """After a call that failed."""
    copiers_stuck: int = 0
    """Restarted because a call never ended."""
    seconds: float = 0.0

    def add(self, other: Self) -> None:
        """Add what another series saw."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def lines(self) -> list[str]:
        """The figures for people."""
        return [
            f"{self.rounds} rounds in {self.seconds:.0f} s",
            f"{self.records} records, {self.committed} transactions committed, {self.aborted} aborted, "
            f"{self.plain_commits} plain commits; {self.shared} shared, {self.letters} of them with dead letters",
            f"copiers: {self.copiers_restarted} started again after an error, {self.copiers_stuck} because stuck",
        ]


FiguresT = TypeVar("FiguresT", bound=Figures)


class DisturbedSeries(Generic[FiguresT]):
    """One broker, one directory, some rounds. `run` once."""

    settings: Mapping[str, str] = {}
    """Of the broker."""

    def __init__(
        self,
        directory: Path,
        figures: FiguresT,
        *,
        seed: int,
        rounds: int,
        durability: str,
        records: int = RECORDS,
        finish_within_s: float = FINISH_WITHIN_S,
        shares: bool = False,
    ) -> None:
        """`records` per partition and round, counted in `figures`. Everything is kept below `directory`. If it
        `shares`, a share group reads the input, too, whose broker needs settings of its own (`crash_sharing`)."""
        self.figures = figures
        self._finish_within_s = finish_within_s
        self.directory = directory
        self._chance = random.Random(seed)
        self._rounds = rounds
        self._records = records
        self._broker = BrokerProcess(
            directory / "data", durability=durability, settings=dict(self.settings), port=free_port()
        )
        self._copiers: list[subprocess.Popen[bytes]] = []
        self._sharer = Sharer(self._broker.address, SOURCE, len(COPIERS)) if shares else None

    async def run(self) -> FiguresT:
        """All rounds, and the checks behind them. Raises what is wrong; what is left can be looked at."""
        began = time.monotonic()
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            await asyncio.to_thread(self._broker.start, READY_WITHIN_S)
            async with Client(self._broker.address, retry_timeout_ms=int(self._finish_within_s * 1000)) as client:
                await self._work(client)
            assert await asyncio.to_thread(self._broker.stop) == 0
        finally:
            for process in self._copiers:
                process.kill()
                process.wait(HANG_S)
            if self._broker.running:
                self._broker.kill()
        self._count_transactions()
        self._count_restarts()
        await asyncio.to_thread(self._check_directory)
        self.figures.seconds = time.monotonic() - began
        return self.figures

    async def _work(self, client: Client) -> None:
        for topic in (SOURCE, TARGET):
            await Admin(client).create_topic(topic, len(COPIERS))
        each = range(len(COPIERS))
        feeder = Feeder(self._broker.address, SOURCE, len(COPIERS))
        committer = Committer(client, SOURCE, len(COPIERS))
        reader = LiveReader(client, TARGET, len(COPIERS))
        ends = Ends(client, [TopicPartition(topic, partition) for topic in (SOURCE, TARGET) for partition in each])
        workers = [feeder, committer, reader]
        if self._sharer is not None:
            await self._sharer.begin()
            workers.append(self._sharer)
        self._start_copiers()
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(one.run()) for one in workers]
            for number in range(self._rounds):
                feeder.allow(self._records * (number + 1))
                await self._until_the_moment(reader, ends)
                await self._disturb(number)
                await ends.look()
                await committer.look()
                self.figures.rounds += 1
            await self._finish(feeder, reader)
            # Once more, and now everything is known before.
            await self._disturb_at_the_end()
            await ends.look()
            await committer.look()
            if self._sharer is not None:
                await self._sharer.look()
                self.figures.shared = sum(map(len, self._sharer.settled))
                self.figures.letters = sum(map(len, self._sharer.rejected))
            for task in work:
                task.cancel()
        await self._compare(client, reader)
        self.figures.records = sum(feeder.acknowledged) + sum(reader.seen)
        self.figures.plain_commits = committer.acknowledged

    def _start_copiers(self) -> None:
        count = self._records * self._rounds
        environment = {
            **os.environ,
            "EOSIN_COPIER_LARGEST_BATCH": str(LARGEST_BATCH),
            "EOSIN_COPIER_STUCK_AFTER_S": str(STUCK_AFTER_S),
            "EOSIN_COPIER_GIVE_UP_AFTER_S": str(self._finish_within_s),
        }
        for partition, name in enumerate(COPIERS):
            arguments = [name, self._broker.address, SOURCE, TARGET, partition, count, self._chance.randrange(1 << 30)]
            with self._errors_of(name).open("ab") as errors:
                command = [sys.executable, copier.__file__, *map(str, arguments)]
                self._copiers.append(subprocess.Popen(command, stderr=errors, env=environment))

    def _errors_of(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def copiers_said(self) -> str:
        """All that the copiers said on stderr, one after the other."""
        return "\n".join(f"{name}:\n{self._errors_of(name).read_text()}" for name in COPIERS)

    def _last_words(self, name: str) -> str:
        return self._errors_of(name).read_text()[-1500:]

    async def _until_the_moment(self, reader: LiveReader, ends: Ends) -> None:
        """Wait until so and so much more is copied, or a time is over, whatever is first; then a moment longer."""
        goal = sum(reader.seen) + self._chance.randint(1, self._records * len(COPIERS))
        limit = self._chance.uniform(0.1, 3.0)
        moment = self._chance.uniform(0, 0.05)
        deadline = time.monotonic() + limit
        while sum(reader.seen) < goal and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            await ends.look()
        await asyncio.sleep(moment)

    async def _disturb(self, number: int) -> None:
        """Disturb the broker in a round. It serves again when this returns."""
        raise NotImplementedError

    async def _disturb_at_the_end(self) -> None:
        """The same once more, when everything is acknowledged and copied."""
        raise NotImplementedError

    async def _finish(self, feeder: Feeder, reader: LiveReader) -> None:
        """The producer has everything acknowledged, the copiers end, the reader has seen what they did, and the share
        group is done."""
        length = self._records * self._rounds
        try:
            async with asyncio.timeout(self._finish_within_s):
                await feeder.finish()
                await until(lambda: all(process.poll() is not None for process in self._copiers))
                for name, process in zip(COPIERS, self._copiers, strict=True):
                    assert process.returncode == 0, f"the copier of {name} gave up:\n{self._last_words(name)}"
                await until(lambda: min(reader.seen) >= length)
                if self._sharer is not None:
                    await self._sharer.finish(length)
        except TimeoutError:
            sharing = "" if self._sharer is None else f"; {self._sharer.progress}"
            words = "\n".join(f"{name}: {self._last_words(name)}" for name in COPIERS)
            raise AssertionError(
                f"not done within {self._finish_within_s} s: of {length} numbers in each partition "
                f"{feeder.acknowledged} are acknowledged and {reader.seen} copied{sharing}\n{words}"
            ) from None

    async def _compare(self, client: Client, reader: LiveReader) -> None:
        """Read all of it again, with a client that has seen none of it, and ask for the groups' offsets."""
        length = self._records * self._rounds
        numbers = [list(range(length)) for _ in COPIERS]
        assert reader.seen == [length] * len(COPIERS)
        for topic in (SOURCE, TARGET):
            assert await asyncio.to_thread(_read_all, self._broker.address, topic, length) == numbers, topic
        for partition in range(len(COPIERS)):
            where = TopicPartition(SOURCE, partition)
            assert await committed_offset(client, f"copy-{SOURCE}-{partition}", where) == length, where

    def _count_transactions(self) -> None:
        for segment in sorted(self._broker.data_dir.glob(f"{TARGET}-*/*.log")):
            data = segment.read_bytes()
            for position, header in batches(data):
                if header.is_control:
                    marker = read_control_record(data[position : position + header.size])
                    assert marker is not None
                    self.figures.committed += marker.is_commit
                    self.figures.aborted += not marker.is_commit

    def _count_restarts(self) -> None:
        for name in COPIERS:
            errors = self._errors_of(name).read_text()
            self.figures.copiers_stuck += errors.count("a copier is stuck")
            self.figures.copiers_restarted += errors.count("starts again after")

    def _check_directory(self) -> None:
        from eosin.cli.__main__ import COMMANDS

        if "check" not in COMMANDS:
            return
        command = [sys.executable, "-m", "eosin.cli", "check", str(self._broker.data_dir)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def _read_all(bootstrap: str, topic: str, length: int) -> list[list[int]]:
    """The numbers in each partition, read_committed."""
    scenario = Scenario(confluent.CLIENT, bootstrap)
    try:
        reader = scenario.reader(topic, len(COPIERS))
        records = read_all(reader, length * len(COPIERS))
        found: list[list[int]] = [[] for _ in COPIERS]
        for record in records:
            found[record.partition].append(int(record.value or b"-1"))
        return found
    finally:
        scenario.close()
