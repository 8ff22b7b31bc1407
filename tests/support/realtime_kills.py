"""Kills a query in Real-time Mode, and what it stands on, again and again: `make proof-realtime`.

    python realtime_kills.py [--kills 100] [--seed 1] [--only driver,broker,...] [--kafka]

Rows are written into the input all the time, some of them in transactions that abort. Once rows flow, something happens
at a moment by chance; then all rows have to be in the output, each once and in the order of its partition. Kinds:
`driver` (with all its executors), `executor` (one of two), `broker` (kill -9, started again), `second` (another driver
while the first one runs), `pause` (an executor sleeps until Spark has given it up, and comes back), `moved` (the query
goes on with another number of executors, so that partitions change places), `checkpoint` (the driver is killed, and its
checkpoint thrown away). Ends with 1 if a row was lost, doubled or out of order, and with an error if the query stands
still. A busy machine is no defect: a wait counts the time that drivers and executors got (`machine_time.py`).
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import realtime_driver
import standstill
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from machine_time import MachineTime
from pipeline_copier import executors_of, members_of
from pipeline_copier import stop as stop_driver
from proof.reporting import report_failure, report_figures
from spark_home import spark_home
from topic_load import TopicLoad

from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.producer import Producer
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

KINDS: Final = ("driver", "executor", "broker", "second", "pause", "moved", "checkpoint")
_ROWS_A_TURN: Final = 4
_EVERY_S: Final = 0.05
_FLOW_ROWS: Final = 60
_GIVES_UP_S: Final = 240
"""Of the time of the drivers: a new one needs some ten of them to its first row."""
_SHOWN_OF_THE_LOG: Final = 6000


class StandsStill(AssertionError):
    """The query, or something that it stands on, brings no rows any more."""


class Feed:
    """Writes rows into the input from a thread of its own, and remembers those that it committed."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self._bootstrap = bootstrap
        self._chance = chance
        self.rows: list[list[str]] = [[] for _ in range(realtime_driver.PARTITIONS)]
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._ended = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """No row is written meanwhile, and what was written has an outcome."""
        self._goes_on.clear()
        while not self._is_quiet:
            self.check()
            time.sleep(0.05)
        yield
        self._goes_on.set()

    def end(self) -> None:
        self._ended = True
        self._goes_on.set()
        self._thread.join()

    def check(self) -> None:
        """Raise StandsStill if no row is written any more, for which the query can do nothing."""
        if self._failure is not None:
            raise StandsStill(f"the input has ended: {self._failure!r}") from self._failure

    _is_quiet = False

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self._failure = error
            raise

    async def _run(self) -> None:
        async with Client(self._bootstrap, retry_timeout_ms=120_000) as client:
            producer = Producer(client, "feed")
            await producer.init()
            while not self._ended:
                self._is_quiet = not self._goes_on.is_set()
                if not self._is_quiet:
                    await self._transaction(producer)
                await asyncio.sleep(_EVERY_S)

    async def _transaction(self, producer: Producer) -> None:
        # A commit whose answer is lost is repeated by the client until there is one, also over a restart of the broker.
        index = self._chance.randrange(len(self.rows))
        commits = self._chance.random() < 0.9
        first = len(self.rows[index])
        texts = [f"{index}:{row}" if commits else "never" for row in range(first, first + _ROWS_A_TURN)]
        producer.begin()
        records = [NewRecord(None, text.encode()) for text in texts]
        await producer.send(TopicPartition(realtime_driver.INPUT, index), records, timestamp=int(time.time() * 1000))
        await (producer.commit() if commits else producer.abort())
        if commits:
            self.rows[index] += texts


@dataclass
class Output:
    """What is in the output, as a reader of committed rows sees it."""

    bootstrap: str
    keys: list[list[str]] = field(default_factory=lambda: [[] for _ in range(realtime_driver.PARTITIONS)])
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def read(self) -> int:
        """Read what is new; returns how many rows there are."""
        asyncio.run(self._read())
        return sum(map(len, self.keys))

    async def _read(self) -> None:
        async with Client(self.bootstrap, retry_timeout_ms=120_000) as client:
            consumer = Consumer(client)
            for index in range(len(self.keys)):
                self.positions.setdefault(TopicPartition(realtime_driver.OUTPUT, index), 0)
            consumer.assign(self.positions)
            while records := await consumer.poll(100):
                for each in records:
                    self.keys[each.partition.partition].append((each.record.key or b"").decode())
            self.positions = {each: consumer.position(each) for each in self.positions}


class Campaign:
    """The broker, the drivers, and what has happened so far."""

    def __init__(self, folder: Path, broker: BrokerProcess | ApacheKafka, chance: random.Random) -> None:
        self.folder, self.broker, self.chance = folder, broker, chance
        self.bootstrap = broker.address
        load = TopicLoad(self.bootstrap)
        for topic in (realtime_driver.INPUT, realtime_driver.OUTPUT):
            load.create(topic, realtime_driver.PARTITIONS)
        self.feed = Feed(self.bootstrap, chance)
        self.output = Output(self.bootstrap)
        self.checkpoint = 0
        self.executors = 2
        self.drivers: list[subprocess.Popen[str]] = []
        self.driver = self.launch()
        self.happened: Counter[str] = Counter()

    def launch(self, *more: str) -> "subprocess.Popen[str]":
        """Start a driver with executors in processes of their own."""
        master = f"local-cluster[{self.executors},{realtime_driver.PARTITIONS},600]"
        command = [sys.executable, realtime_driver.__file__, self.bootstrap, str(self.folder), "--master", master]
        command += ["--checkpoint", f"checkpoint-{self.checkpoint}", *more]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parent)}
        environment["SPARK_HOME"] = str(spark_home(self.folder))
        with (self.folder / "driver.log").open("a") as log:
            driver = subprocess.Popen(
                command, stdout=log, stderr=log, text=True, env=environment, start_new_session=True, cwd=self.folder
            )
        self.drivers = [each for each in self.drivers if each.poll() is None] + [driver]
        return driver

    def members(self) -> list[int]:
        """The processes of all drivers that run."""
        return [pid for driver in self.drivers if driver.poll() is None for pid in members_of(driver)]

    def wait(self, what: str, until: Callable[[], bool]) -> None:
        """Wait for something. Raises StandsStill with all that can be told of a query that had its time for it."""
        begun, taken = time.monotonic(), MachineTime(self.members)
        while not until():
            self.feed.check()
            elapsed_s = taken.elapsed_s()
            ended = self.driver.poll() not in (None, realtime_driver.TAKEN_OVER)
            if ended or elapsed_s > _GIVES_UP_S:
                raise StandsStill(
                    f"waited in vain for {what}: {time.monotonic() - begun:.0f} s, of which {elapsed_s:.0f} s count on"
                    f" this machine (load {os.getloadavg()[0]:.0f}); drivers and executors ran {taken.ran_s:.0f} s.\n"
                    f"{self.told(ended=ended)}"
                )
            time.sleep(0.3)

    def told(self, *, ended: bool) -> str:
        """What is known of the rows, the threads, the broker, and what drivers said last."""
        written, copied = sum(map(len, self.feed.rows)), sum(map(len, self.output.keys))
        partitions = [f"{realtime_driver.INPUT}:{index}" for index in range(realtime_driver.PARTITIONS)]
        said = (self.folder / "driver.log").read_text()[-_SHOWN_OF_THE_LOG:]
        return "\n".join(
            (
                f"{written} rows are in the input, and {copied} in the output, {realtime_driver.COPIES} of each",
                standstill.report(self.bootstrap, realtime_driver.PIPELINE, partitions, self.members()),
                f"the driver {f'has ended with {self.driver.poll()}' if ended else 'runs'}, and said last:\n{said}",
            )
        )

    def flow(self) -> None:
        """Wait until rows flow, and then for a moment by chance."""
        begun = self.output.read()
        self.wait("rows", lambda: self.output.read() > begun + _FLOW_ROWS)
        self._moment(1.5)

    def _moment(self, longest_s: float, shortest_s: float = 0) -> None:
        time.sleep(self.chance.uniform(shortest_s, longest_s))

    def kill(self, kind: str) -> None:
        """Let one thing happen."""
        getattr(self, f"_{kind}")()
        self.happened[kind] += 1

    def _driver(self) -> None:
        stop_driver(self.driver)
        self.driver = self.launch()

    def _executor(self) -> None:
        os.kill(self._an_executor(), signal.SIGKILL)

    def _an_executor(self) -> int:
        running: list[int] = []

        def found() -> bool:
            running[:] = executors_of(self.driver)
            return bool(running)

        self.wait("an executor", found)
        return self.chance.choice(running)

    def _broker(self) -> None:
        self.broker.kill()
        self._moment(2)
        self.broker.start()

    def _second(self) -> None:
        first, self.driver = self.driver, self.launch("--yields")
        begun = self.output.read()
        self.wait("the second driver", lambda: self.output.read() > begun + 4 * _FLOW_ROWS)
        stop_driver(first)
        # It may have yielded to the first one, which did not.
        if self.driver.poll() is not None:
            self.driver = self.launch()
        self.flow()

    def _pause(self) -> None:
        sleeper = self._an_executor()
        os.kill(sleeper, signal.SIGSTOP)
        begun = self.output.read()
        self._moment(*self.chance.choice(((3.0, 1.0), (25.0, 20.0))))
        with contextlib.suppress(ProcessLookupError):
            os.kill(sleeper, signal.SIGCONT)
        self.wait("rows after a pause", lambda: self.output.read() > begun + 2 * _FLOW_ROWS)

    def _moved(self) -> None:
        self.executors = 3 - self.executors
        self._driver()

    def _checkpoint(self) -> None:
        stop_driver(self.driver)
        self.checkpoint += 1
        self.driver = self.launch()

    def check(self) -> dict[str, int]:
        """Compare the output with what it has to be, once everything has come. Raises StandsStill if rows are missing
        only behind those that are there."""
        with self.feed.stopped():
            wanted = [
                [f"{row}/{copy}" for row in rows for copy in range(realtime_driver.COPIES)] for rows in self.feed.rows
            ]
            count = sum(map(len, wanted))
            try:
                self.wait("all rows", lambda: self.output.read() >= count)
            except StandsStill:
                if all(want[: len(have)] == have for want, have in zip(wanted, self.output.keys, strict=True)):
                    raise
            return {"rows": count, **compared(wanted, self.output.keys)}

    def close(self) -> None:
        self.feed.end()
        for driver in self.drivers:
            stop_driver(driver)


def compared(wanted: list[list[str]], found: list[list[str]]) -> dict[str, int]:
    """The rows that are lost, doubled or out of order, in all partitions."""
    lost = sum(len(set(want) - set(have)) for want, have in zip(wanted, found, strict=True))
    doubled = sum(len(have) - len(set(have)) for have in found)
    is_ordered = all(want == have for want, have in zip(wanted, found, strict=True))
    return {"lost": lost, "doubled": doubled, "out_of_order": int(not (is_ordered or lost or doubled))}


def main() -> int:
    """Run the campaign; 1 if a row was lost, doubled or out of order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka")
    parser.add_argument("--minutes", type=float, default=0, help="stop after the kill at which this time is over")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    kinds = options.only.split(",")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="eosin-realtime-") as name:
        folder = Path(name)
        broker = ApacheKafka(folder / "kafka") if options.kafka else BrokerProcess(folder / "broker" / "data")
        with broker:
            campaign = Campaign(folder, broker, chance)
            try:
                said: dict[str, int] = {}
                for number in range(options.kills):
                    campaign.flow()
                    kind = kinds[number % len(kinds)]
                    campaign.kill(kind)
                    campaign.flow()
                    said = campaign.check()
                    print(f"{number + 1} {kind}: {said} after {time.monotonic() - begun:.0f} s", flush=True)
                    if said["lost"] or said["doubled"] or said["out_of_order"]:
                        print(broker.log[-2000:], (folder / "driver.log").read_text()[-6000:])
                        report_failure(f"after {number + 1} kills, the last of {kind}: {said}", f"seed {options.seed}")
                        break
                    if options.minutes and time.monotonic() - begun > options.minutes * 60:
                        break
            finally:
                campaign.close()
    figures = {"on": "Apache Kafka" if options.kafka else "Eosin", "kills": dict(campaign.happened), **said}
    report_figures(**figures)
    print(json.dumps(figures))
    return 1 if said["lost"] or said["doubled"] or said["out_of_order"] else 0


if __name__ == "__main__":
    sys.exit(main())
