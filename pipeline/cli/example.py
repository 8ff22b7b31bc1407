"""`eosin pipeline example wordcount|orders` runs a pipeline, kills it on the way, and checks its output.

Starts a broker if none is given, writes the input and runs `eosin pipeline run` in its own process. With
--crash-every N, kills that process and its children after every N batches. At the end `eosin pipeline verify` compares
output and input, and decides.
"""

import asyncio
import importlib
import json
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord, Consumer
from eosin.client.errors import BrokerError, ClientError
from eosin.client.producer import Producer
from eosin.client.security.settings import SecuritySettings
from eosin.client.transactions import TransactionAdmin
from eosin.pipeline.cli.arguments import PipelineParser, at_least, fail
from eosin.pipeline.common.errors import ConflictingSettings, MissingDependency, require_spark
from eosin.pipeline.common.partitioning import partition_of
from eosin.pipeline.common.security import carried_settings, connection_security
from eosin.pipeline.job.child import Child, ChildFailed, end_on_sigterm
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.runtime.clock import SystemClock

EXAMPLES: Final = {"orders": "totals", "wordcount": "counts"}
"""Modules of `eosin.pipeline.examples`, and the pipeline function of each."""
PARTITIONS: Final = 3
_TRANSACTION_RECORDS: Final = 50
_MAX_CRASHES: Final = 50
_COMMITTED: Final = "when a batch was committed, and Spark had not noted it"
_OPEN: Final = "while rows were written"
_BETWEEN: Final = "between two batches"
_MOMENTS: Final = (_COMMITTED, _OPEN, _BETWEEN)
"""The moments of crashes, used in turn."""
_MOMENT_MS: Final = 60_000
_SMALL: Final = (
    "spark.sql.shuffle.partitions=2",
    "spark.ui.enabled=false",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a short life
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
)


def main(arguments: Sequence[str]) -> int:
    """Run an example. Exit code 0 if each input is reflected exactly once, else 1."""
    options = _parser().parse_args(arguments)
    try:
        require_spark()
        from eosin.pipeline.spark.session import require_java

        require_java()
    except MissingDependency as missing:
        return fail("example", str(missing), code=1)
    if options.command_config is not None and options.bootstrap_server is None:
        return fail("example", "--command-config is for a cluster of yours: it needs --bootstrap-server")
    try:
        settings = carried_settings(options.command_config)
    except ConflictingSettings as error:
        return fail("example", str(error))
    end_on_sigterm()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="eosin-example-"))
    example = importlib.import_module(f"eosin.pipeline.examples.{options.example}")
    broker: Child | None = None
    try:
        bootstrap = options.bootstrap_server
        if bootstrap is None:
            broker = Child(
                ["serve", "--listen", "127.0.0.1:0", "--durability", "os", "--data-dir", str(folder / "broker")],
                quiet=True,
            )
            bootstrap = _address(broker)
        return Example(options, example, bootstrap, folder, settings).run()
    except (ClientError, ChildFailed, TimeoutError) as error:
        return fail("example", str(error), code=1)
    finally:
        if broker is not None:
            broker.stop()
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


class Example:
    """One run: input, pipeline, crashes, verification."""

    def __init__(
        self, options: Namespace, example: ModuleType, bootstrap: str, folder: Path, settings: SecuritySettings
    ) -> None:
        self.options = options
        self.example = example
        self.bootstrap = bootstrap
        self.settings = settings
        self.folder = folder
        self.input, self.output = f"{options.example}-input", f"{options.example}-output"
        self.clock = SystemClock()
        self.crashes = 0
        self.batches: set[int] = set()
        self.replayed = 0

    def run(self) -> int:
        """Run the whole example; returns the exit code."""
        written = asyncio.run(self._write_input())
        self._say(f"{written} records are in topic {self.input}, and {written // 10} aborted ones")
        while self._run_pipeline():
            self.crashes += 1
        inputs = asyncio.run(self._read(self.input, IsolationLevel.READ_COMMITTED))
        outputs = asyncio.run(self._read(self.output, IsolationLevel.READ_COMMITTED))
        everything = asyncio.run(self._read(self.output, IsolationLevel.READ_UNCOMMITTED))
        verdict: dict[str, Any] = {
            "inputs": len(inputs),
            "outputs": len(outputs),
            "batches": len(self.batches),
            "crashes": self.crashes,
            "replayed_and_skipped": self.replayed,
            "aborted_outputs": len(everything) - len(outputs),
        }
        self._say(
            f"{verdict['crashes']} crashes, {verdict['batches']} batches, {verdict['replayed_and_skipped']} of them"
            f" replayed and skipped, {verdict['aborted_outputs']} rows of crashed batches aborted"
        )
        self._say(
            f"{verdict['inputs']} rows of input, {verdict['outputs']} rows of output; whether each is reflected once:"
        )
        code = self._verify(verdict)
        if self.options.json:
            print(json.dumps(verdict), flush=True)
        return code or int(not inputs)

    def _verify(self, verdict: dict[str, Any]) -> int:
        """Run `eosin pipeline verify`; returns its exit code."""
        command = ["pipeline", "verify", "--input", self.input, "--output", self.output]
        command += ["--by", f"eosin.pipeline.examples.{self.options.example}:reflected"]
        command += self._cluster()
        self._say(f"  eosin {' '.join(command)}")
        child = Child([*command, *self._spark(), *(["--json"] if self.options.json else [])])
        try:
            for line in child.lines():
                if self.options.json:
                    verdict["verify"] = json.loads(line)
                self._say(f"  {line.rstrip()}")
            return child.wait()
        finally:
            child.stop()

    def _spark(self) -> list[str]:
        settings = (*_SMALL, f"spark.sql.warehouse.dir={self.folder / 'warehouse'}")
        return ["--master", self.options.master, *(part for each in settings for part in ("--conf", each))]

    def _say(self, line: str) -> None:
        if not self.options.json:
            print(line, flush=True)

    def _client(self) -> Client:
        return Client(self.bootstrap, security=connection_security(self.settings))

    def _cluster(self) -> list[str]:
        """The options by which a command finds the cluster."""
        config = self.options.command_config
        return ["--bootstrap-server", self.bootstrap, *(["--command-config", config] if config else [])]

    # --- the pipeline

    def _run_pipeline(self) -> bool:
        """Run the pipeline to the end of its input, or kill it after some batches; returns whether it was killed."""
        name = self.options.example
        command = ["pipeline", "run", f"eosin.pipeline.examples.{name}:{EXAMPLES[name]}", "--json"]
        command += [*self._cluster(), "--checkpoint", str(self.folder / "checkpoint")]
        command += ["--input", self.input, "--output", self.output, "--name", name, "--mode", self.example.MODE]
        command += ["--trigger", "available-now", "--max-rows", str(self.options.max_rows)]
        command += ["--route", self.options.route]
        child = Child([*command, *self._spark()])
        crash_after = self.options.crash_every if self.crashes < _MAX_CRASHES else 0
        try:
            new = 0
            for line in child.lines():
                progress = json.loads(line)
                self._batch(progress)
                new += not progress["already_committed"]
                if crash_after and new >= crash_after:
                    moment = _MOMENTS[self.crashes % len(_MOMENTS)]
                    asyncio.run(self._wait_for(moment, child))
                    if child.kill():
                        self._say(f"crash {self.crashes + 1}: killed with all its processes {moment}")
                        return True
                    break
            code = child.wait()
            if code:
                raise ChildFailed(f"eosin pipeline run ended with code {code}")
            return False
        finally:
            child.stop()

    async def _wait_for(self, moment: str, child: Child) -> None:
        """Wait for a moment of the next batch, by asking the transaction coordinator."""
        if moment == _BETWEEN:
            return
        deadline_ms = self.clock.elapsed_ms() + _MOMENT_MS
        async with self._client() as client:
            admin = TransactionAdmin(client)
            epoch = (await admin.describe(self.options.example)).producer_epoch
            while child.is_running and self.clock.elapsed_ms() < deadline_ms:
                found = await admin.describe(self.options.example)
                if found.is_open and moment == _OPEN:
                    return
                # A new epoch follows every commit (KIP-890); on older brokers the next batch brings it.
                if not found.is_open and found.producer_epoch != epoch and moment == _COMMITTED:
                    return
                await self.clock.sleep(1)

    def _batch(self, progress: dict[str, Any]) -> None:
        self.batches.add(progress["batch"])
        self.replayed += progress["already_committed"]
        if not self.options.json:
            note = " (committed before the crash, skipped)" if progress["already_committed"] else ""
            print(f"  batch {progress['batch']} rows-in {progress['rows_in']} rows-out {progress['rows_out']}{note}")

    # --- input and output

    async def _write_input(self) -> int:
        """Write the records in transactions, before each of them an aborted one."""
        async with self._client() as client:
            for topic in (self.input, self.output):
                try:
                    await Admin(client).create_topic(topic, PARTITIONS)
                except BrokerError as error:
                    if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise ClientError(f"topic {topic} exists already: the example needs new topics") from error
                    raise
            producer = Producer(client, f"{self.options.example}-generator")
            await producer.init()
            records = list(self.example.records(self.options.records))
            for first in range(0, len(records), _TRANSACTION_RECORDS):
                some = records[first : first + _TRANSACTION_RECORDS]
                await self._transaction(producer, some[: len(some) // 10], commit=False)
                await self._transaction(producer, some, commit=True)
            await producer.init()  # this waits until all markers are written
            return len(records)

    async def _transaction(self, producer: Producer, records: Sequence[NewRecord], *, commit: bool) -> None:
        by_partition: dict[TopicPartition, list[NewRecord]] = {}
        for each in records:
            index = partition_of(each.key, each.value, PARTITIONS)
            by_partition.setdefault(TopicPartition(self.input, index), []).append(each)
        producer.begin()
        await producer.send_all(by_partition, timestamp=self.clock.now_ms())
        await (producer.commit() if commit else producer.abort())

    async def _read(self, topic: str, isolation: IsolationLevel) -> list[ConsumedRecord]:
        async with self._client() as client:
            consumer = Consumer(client, isolation=isolation)
            await consumer.assign_from([TopicPartition(topic, index) for index in range(PARTITIONS)])
            return await consumer.read_to_end(timeout_ms=60_000)


def _address(broker: Child) -> str:
    """The address in the first line of a broker: `eosin 0.2.0 ready on HOST:PORT in 0.2 s`."""
    for line in broker.lines():
        words = line.split()
        if "ready" in words:
            return words[words.index("on") + 1]
    raise ChildFailed(f"the broker did not start: it ended with code {broker.wait()}")


def _parser() -> PipelineParser:
    parser = PipelineParser(prog="eosin pipeline example", description=__doc__)
    parser.add_argument("example", choices=sorted(EXAMPLES))
    parser.add_argument(
        "--crash-every", type=at_least(1), default=0, metavar="N", help="kill the pipeline after every N batches"
    )
    parser.add_argument("--records", type=at_least(1), default=600, metavar="N", help="records of input (default: 600)")
    parser.add_argument("--max-rows", type=at_least(1), default=70, metavar="N", help="offsets per batch (default: 70)")
    parser.add_argument(
        "--route", choices=("driver", "executors"), default="driver", help="how rows reach the broker (default: driver)"
    )
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT[,...]", help="brokers to use (default: start one)")
    parser.add_argument(
        "--command-config", metavar="FILE", help="settings of a Kafka client: TLS and login (security.protocol, ...)"
    )
    parser.add_argument(
        "--folder", metavar="DIR", help="folder for checkpoint and broker, kept afterwards (default: a temporary one)"
    )
    parser.add_argument("--master", default="local[2]", help="Spark's master (default: local[2])")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
