"""A pipeline in processes of their own, and a broker that kills it at a step of its protocol."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import pipeline_driver
from msgspec.structs import replace
from spark_home import spark_home
from topic_load import TopicLoad
from waiting import HANG_S

from eosin.model.close_connection import CloseConnection
from eosin.network.request_hooks import ObservedRequest, RequestHooks
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.produce import ProduceResponse


class Broker(Protocol):
    """The part of a broker that a copier needs: an address."""

    @property
    def address(self) -> str:
        """host:port."""


PARTITIONS = 3
ROWS = 24
PROGRAM = Path(pipeline_driver.__file__)

Step = Callable[[ApiKey, Any], bool]


class Kill(NamedTuple):
    """A kill at a step: before it is handled, or after that and before the answer."""

    when: Literal["before", "after"]
    step: Step


class Killer(RequestHooks):
    """Kills the driver at a step: before it is handled, or after that and before the answer."""

    def __init__(self) -> None:
        self.driver: subprocess.Popen[str] | None = None
        self.before: Step | None = None
        self.after: Step | None = None
        self.spoil: Step | None = None
        """The step at which to answer a Produce that was appended with an error that a client cannot repair."""
        self.spoiled = ErrorCode.MESSAGE_TOO_LARGE
        self.signal = signal.SIGKILL
        self.executor_only = False
        """Kill one executor, and leave the driver alone."""
        self.workers_too = False
        """Kill Python workers as well, which have process groups of their own and may finish what they do."""
        self.executors: Callable[[], list[int]] | None = None
        """The executors that there are; without it, all that the driver has started."""
        self.happened = 0
        self.signalled = threading.Event()
        self._planned: list[Kill] = []

    def plan(self, kills: Sequence[Kill]) -> None:
        """Kill at each of these steps, one after the other. A step without anybody to kill leaves its kill planned."""
        self._planned = list(kills)
        self._next()

    def _next(self) -> None:
        self.before = self.after = None
        if self._planned:
            kill = self._planned.pop(0)
            setattr(self, kill.when, kill.step)

    async def begun(self, observed: ObservedRequest) -> None:
        """Perhaps kill before anything is done."""
        self._perhaps(self.before, observed.api.key, observed.request)

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """Perhaps kill before anybody is told."""
        self._perhaps(self.after, observed.api.key, observed.request)
        if self.spoil is not None and self.spoil(observed.api.key, observed.request):
            self.spoil = None
            self.happened += 1
            return _refused(response, self.spoiled)
        return response

    def _perhaps(self, step: Step | None, key: ApiKey, request: Any) -> None:
        if step is None or self.driver is None or not step(key, request):
            return
        if self.executor_only:
            running = executors_of(self.driver) if self.executors is None else self.executors()
            if running:
                self._happen()
                os.kill(running[0], signal.SIGKILL)
            return
        self._happen()
        workers = members_of(self.driver) if self.workers_too else []
        os.killpg(self.driver.pid, self.signal)
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, self.signal)
        if self.signal == signal.SIGKILL:
            raise CloseConnection

    def _happen(self) -> None:
        self.happened += 1
        self.signalled.set()
        self._next()


def executors_of(driver: "subprocess.Popen[str]") -> list[int]:
    """The process ids of the executors in a driver's process group."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in command and os.getpgid(int(process.name)) == driver.pid:
                found.append(int(process.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def members_of(driver: "subprocess.Popen[str]") -> list[int]:
    """The process ids of everything that a driver has started, whatever its process group."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(process.name)) == driver.pid:
                found.append(int(process.name))
    return found


def _refused(response: ProduceResponse, code: ErrorCode) -> ProduceResponse:
    topics = (
        replace(topic, partition_responses=tuple(replace(each, error_code=code) for each in topic.partition_responses))
        for topic in response.responses
    )
    return replace(response, responses=tuple(topics))


class Copier:
    """The pipeline, its broker and its checkpoint."""

    def __init__(self, folder: Path, killer: Killer, broker: Broker) -> None:
        self.folder = folder
        self.said = ""
        self.killer = killer
        self.broker = broker
        self.load = TopicLoad(broker.address)
        self.load.create(pipeline_driver.INPUT, 2)
        self.load.create(pipeline_driver.OUTPUT, PARTITIONS)
        for first in range(0, ROWS, 8):
            self.load.transaction(pipeline_driver.INPUT, [(row % 2, f"{row:03}") for row in range(first, first + 8)])
            self.load.transaction(pipeline_driver.INPUT, [(0, "never")], end="abort")

    def launch(self, route: str, *options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(PROGRAM), self.broker.address, str(self.folder), route, *options]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home(self.folder))}
        with (self.folder / "driver.log").open("a") as log:
            driver = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, start_new_session=True
            )
        self.killer.driver = driver
        return driver

    def run(self, route: str, *options: str) -> tuple[int, list[dict[str, Any]]]:
        """Start the driver and wait for its end; its exit code and what it told of each batch."""
        driver = self.launch(route, *options)
        try:
            said, _ = driver.communicate(timeout=600)
        finally:
            stop(driver)
        self.said = said
        return driver.returncode, [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    @property
    def log(self) -> str:
        """The output of the last driver, and the end of the log of all drivers."""
        return f"{self.said}\n{(self.folder / 'driver.log').read_text()[-3000:]}"

    def copied(self) -> list[bytes]:
        return self.load.values(pipeline_driver.OUTPUT, PARTITIONS)

    def sources(self) -> dict[bytes | None, bytes | None]:
        """The source that each row of the output names: `topic:partition:offset`."""
        read = self.load.records(pipeline_driver.OUTPUT, PARTITIONS)
        return {each.record.key: each.record.value for each in read}

    def expected_sources(self) -> dict[bytes | None, bytes | None]:
        """The place of each row of the input."""
        read = self.load.records(pipeline_driver.INPUT, 2)
        name = pipeline_driver.INPUT
        return {f"{name}:{each.partition.partition}:{each.record.offset}".encode(): each.record.value for each in read}

    def is_complete(self) -> bool:
        """True if each row is there once, and nothing else."""
        return self.copied() == expected()

    def assert_complete(self) -> None:
        assert self.copied() == expected()


def expected() -> list[bytes]:
    """The rows that the output is to hold in the end."""
    return [f"{row:03}".encode() for row in range(ROWS)]


def stop(driver: "subprocess.Popen[str]") -> None:
    """End a driver with its Java and Python children."""
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    driver.wait(HANG_S)
