"""Works a real broker for as long as is asked, with all that clients and the operating system do to it, by turns.

    python soak.py --minutes 60 [--seed 1] [--durability fsync]

Transactional copiers of several client libraries, an idempotent producer and a group work all the while
(`disturbed_series.py`). The misfortunes take turns: a storm of connections, a pause of the whole process, readers that
do not read, topics made and deleted, a disk that is full for a while. All of them once are a cycle; after each, memory
and descriptors are noted, and at the end they must be what they were in the first half. What the copiers wrote is
counted, `eosin check` looks at the directory, and no partition may have gone offline. The disk is filled only where a
tmpfs may be mounted; else the report says that it was not.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import disturbed_series
from descendants import end_with_me
from disturbed_series import DisturbedSeries
from proof.reporting import cause, report_failure, report_figures
from small_disk import NotMounted, fill, small_disk
from wire import Wire

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.wire.codec import encode_request

MIB = 1024 * 1024
DISK_MIB = 768
CYCLES_PER_MINUTE = 1.0
"""About: all misfortunes once."""
STORM = 500
SLOW_READERS = 8
TOPICS = 10
PARTITIONS_OF_EACH = 20
LONGEST_PAUSE_S = 8.0
DISK_FULL_S = 4.0
SETTLE_S = 15.0
"""Longer than the broker keeps files open that nobody uses."""
MEMORY_MAY_GROW = 1.25
MEMORY_SLACK_MIB = 40
DESCRIPTOR_SLACK = 16
SOURCE_RECORDS = 150


@dataclass
class Figures(disturbed_series.Figures):
    """The figures of a soak."""

    happened: dict[str, int] = field(default_factory=dict)
    left_out: str = ""
    memory_mib: list[float] = field(default_factory=list)
    """Resident, after each cycle."""
    descriptors: list[int] = field(default_factory=list)
    """Open, after each cycle."""

    def lines(self) -> list[str]:
        """The figures for people."""
        happened = ", ".join(f"{name} {count}" for name, count in self.happened.items())
        return [
            *super().lines(),
            f"misfortunes: {happened}" + (f"; left out: {self.left_out}" if self.left_out else ""),
            f"resident memory after each cycle: {', '.join(f'{each:.0f}' for each in self.memory_mib)} MiB",
            f"descriptors after each cycle: {', '.join(map(str, self.descriptors))}",
        ]


class Soak(DisturbedSeries[Figures]):
    """One broker, one directory, some cycles of misfortunes. `run` once."""

    settings = {  # noqa: RUF012 - read only
        "log.segment.delete.delay.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        "log.cleaner.backoff.ms": "1000",
    }

    def __init__(
        self, directory: Path, *, seed: int, cycles: int, durability: str, disk: Path | None, finish_within_s: float
    ) -> None:
        """`disk` is the small file system that `directory` lies on, if it does; it is filled then."""
        happenings: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("storms of connections", self._storm),
            ("pauses", self._pause),
            ("slow readers", self._slow_readers),
            ("topics made and deleted", self._make_and_delete_topics),
        ]
        figures = Figures()
        if disk is not None:
            happenings.append(("full disks", self._fill_disk))
        else:
            figures.left_out = "full disks, since no tmpfs could be mounted"
        self._happenings = happenings
        self._disk = disk
        self._made = 0
        super().__init__(
            directory,
            figures,
            seed=seed,
            rounds=cycles * len(happenings),
            durability=durability,
            records=SOURCE_RECORDS,
            finish_within_s=finish_within_s,
        )

    async def _disturb(self, number: int) -> None:
        name, happen = self._happenings[number % len(self._happenings)]
        await happen()
        self.figures.happened[name] = self.figures.happened.get(name, 0) + 1
        if number % len(self._happenings) == len(self._happenings) - 1:
            await asyncio.sleep(SETTLE_S)
            self.figures.memory_mib.append(self._resident_mib())
            self.figures.descriptors.append(self._descriptors())
            words = f"{self.figures.memory_mib[-1]:.0f} MiB, {self.figures.descriptors[-1]} descriptors"
            print(f"cycle {len(self.figures.memory_mib)}: {words}", flush=True)

    async def _disturb_at_the_end(self) -> None:
        """Compare memory and descriptors, and let a clean stop and a start be the last misfortune."""
        await asyncio.sleep(SETTLE_S)
        memory, descriptors = self.figures.memory_mib, self.figures.descriptors
        # What the first half of the cycles needed is enough for all of them.
        early = slice(0, max(1, len(memory) // 2))
        limit_mib = max(memory[early]) * MEMORY_MAY_GROW + MEMORY_SLACK_MIB
        assert self._resident_mib() <= limit_mib, f"memory grew to {self._resident_mib():.0f} MiB: {memory}"
        limit = max(descriptors[early]) + DESCRIPTOR_SLACK
        assert self._descriptors() <= limit, f"open descriptors grew to {self._descriptors()}: {descriptors}"
        assert await asyncio.to_thread(self._broker.stop) == 0, self._broker.log[-2000:]
        assert "offline" not in self._broker.log, self._broker.log[-2000:]
        assert "Traceback" not in self._broker.log, self._broker.log[-4000:]
        await asyncio.to_thread(self._broker.start)

    # Misfortunes

    async def _storm(self) -> None:
        """Many connect at once and ask something; half of them then vanish without a word, the others wait a while."""
        hello = b"".join(encode_request(ApiKey.API_VERSIONS, 2, 1, "storm", ApiVersionsRequest()))

        async def one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._broker.port)
            writer.write(hello)
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            await reader.readexactly(size)
            return reader, writer

        opened = await asyncio.gather(*(one() for _ in range(STORM)))
        for number, (_, writer) in enumerate(opened):
            if number % 2:
                # Closing then sends a reset.
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.close()
        await asyncio.sleep(0.5)
        for number, (_, writer) in enumerate(opened):
            if not number % 2:
                writer.close()

    async def _pause(self) -> None:
        """The process stands still, as when a virtual machine moves."""
        os.kill(self._broker.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(self._chance.uniform(1.0, LONGEST_PAUSE_S))
        finally:
            os.kill(self._broker.pid, signal.SIGCONT)

    async def _slow_readers(self) -> None:
        """Readers ask for much, do not read it, and go."""
        wire = await Wire.open(self._broker.address)
        partition = await wire.partition()
        batch = self._batch(MIB // 2)
        for _ in range(8):
            assert (await wire.produce(partition, batch)).error_code == ErrorCode.NONE
        await wire.close()
        asked = FetchPartition(partition=partition.partition, fetch_offset=0, partition_max_bytes=4 * MIB)
        topics = (FetchTopic(topic=partition.topic, partitions=(asked,)),)
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=4 * MIB, topics=topics)
        frame = b"".join(encode_request(ApiKey.FETCH, 11, 1, "slow", request))
        writers = []
        for _ in range(SLOW_READERS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._broker.port, limit=1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(frame)
            writers.append((reader, writer))
        await asyncio.sleep(2)
        for _, writer in writers:
            writer.transport.abort()
        await self._delete([partition.topic])

    async def _make_and_delete_topics(self) -> None:
        """Topics are made, written, deleted, and made anew under the same names."""
        self._made += 1
        names = [f"passing-{self._made}-{number}" for number in range(TOPICS)]
        wire = await Wire.open(self._broker.address)
        async with Client(self._broker.address) as client:
            for _ in range(2):
                for name in names:
                    await Admin(client).create_topic(name, PARTITIONS_OF_EACH)
                for name in names:
                    for number in range(PARTITIONS_OF_EACH):
                        where = TopicPartition(name, number)
                        assert (await wire.produce(where, self._batch(100))).error_code == ErrorCode.NONE
                await self._delete(names)
        await wire.close()

    async def _fill_disk(self) -> None:
        """The disk is full for a while, and a topic is deleted meanwhile."""
        assert self._disk is not None
        wire = await Wire.open(self._broker.address)
        topic = (await wire.partition()).topic
        ballast = self._disk / "ballast"
        try:
            await asyncio.to_thread(fill, ballast)
            await asyncio.sleep(DISK_FULL_S / 2)
            with contextlib.suppress(BrokerError):  # may be refused while nothing can be written, and is then repeated
                await self._delete([topic])
            await asyncio.to_thread(fill, ballast)
            await asyncio.sleep(DISK_FULL_S / 2)
        finally:
            ballast.unlink(missing_ok=True)
            await wire.close()

    # Asking and measuring

    async def _delete(self, names: list[str]) -> None:
        async with Client(self._broker.address) as client:
            try:
                await Admin(client).delete_topics(names)
            except ClientError as failure:
                if isinstance(failure, BrokerError):
                    raise

    def _batch(self, size: int) -> bytes:
        return bytes(build_batch([NewRecord(None, bytes(size))], timestamp=int(time.time() * 1000)))

    def _resident_mib(self) -> float:
        return self._broker.resident_bytes() / MIB

    def _descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._broker.pid}/fd"))


async def soak(directory: Path, *, seed: int, cycles: int, durability: str) -> Figures:
    """Run a soak below `directory`, on a small disk if one can be had. Raises AssertionError for whatever is wrong."""
    finish_within_s = 120.0 + 30.0 * cycles
    with contextlib.ExitStack() as stack:
        disk: Path | None
        try:
            disk = stack.enter_context(small_disk(directory / "disk", mebibytes=DISK_MIB))
        except NotMounted:
            disk = None
        work = Soak(
            (disk or directory) / "soak",
            seed=seed,
            cycles=cycles,
            durability=durability,
            disk=disk,
            finish_within_s=finish_within_s,
        )
        return await work.run()


def main() -> int:
    """One soak, and its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="about how long")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--durability", choices=("fsync", "os"), default="fsync")
    options = parser.parse_args()
    cycles = max(2, round(options.minutes * CYCLES_PER_MINUTE))
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"seed {options.seed}, {cycles} cycles; what is left is in {directory}", flush=True)
    try:
        figures = asyncio.run(soak(directory, seed=options.seed, cycles=cycles, durability=options.durability))
    except Exception as error:
        report_failure(cause(error), f"again: --seed {options.seed}", f"what is left is in {directory}")
        raise
    report_figures(seed=options.seed, **{name: value for name, value in vars(figures).items() if name != "seconds"})
    print("\n".join(figures.lines()))
    return 0


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
