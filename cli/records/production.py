"""Lines of standard input written to a topic: in order, as fast as the broker takes them, in transactions if asked for.

Always true: at most some MiB of the input are in memory; a line that is no record stops the command before anything
after it is written, and within a transaction before anything is visible.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from eosin.cli.common.arguments import fail
from eosin.cli.common.remote_commands import NotThere, no_such
from eosin.cli.records.input_lines import BadLine, InputRecord, Parse
from eosin.cli.records.progress import Progress
from eosin.cli.records.standard_input import LineTooLong, StandardInput, UnreadableInput
from eosin.client.admin import Admin
from eosin.client.batch_writer import MAX_BATCH_BYTES, RECORD_BYTES, BatchWriter, record_bytes
from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError
from eosin.client.producer import Producer
from eosin.client.topic_limits import MAX_MESSAGE_BYTES, largest_batch
from eosin.client.transactions import TransactionAdmin
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import HEADER_BYTES, Compression, NewRecord, build_batch
from eosin.runtime.clock import SystemClock

_COMMAND: Final = "produce"
_LINGER_S: Final = 0.005
"""The time for which a batch that is not full waits for more input."""
_TAKEN: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_BATCH_BYTES: Final = 1024 * 1024 + 12
"""Kafka's default, where nobody tells what the topic takes."""


@dataclass(frozen=True, slots=True)
class ProducePlan:
    """The records to write, and the way they are written."""

    topic: str
    parse: Parse | None
    """None when a line is the value of its record, and nothing else."""
    partition: int | None
    create: bool
    compression: Compression
    acks: int
    transactional_id: str | None
    transaction_timeout_ms: int
    batch: int | None
    """Records of one transaction; None for all of the input."""


class Interrupted(Exception):
    """The user, or the system, wants the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted")
        self.number = number


async def produce(client: Client, plan: ProducePlan) -> int:
    """Write standard input; the exit code. Raises NotThere and, when nothing was begun, ClientError."""
    partitions = await _partitions(client, plan)
    largest = await largest_batch(client, plan.topic) or _BATCH_BYTES
    producer = Producer(
        client,
        plan.transactional_id,
        transaction_timeout_ms=plan.transaction_timeout_ms,
        compression=plan.compression,
        acks=plan.acks,
    )
    if plan.acks == -1:
        await producer.init()
    clock = SystemClock()
    writer = BatchWriter(
        producer,
        plan.topic,
        partitions,
        now_ms=clock.now_ms,
        only=plan.partition,
        max_batch_bytes=min(MAX_BATCH_BYTES, max(1024, largest - HEADER_BYTES)),
    )
    production = _Production(plan, client, producer, writer, partitions, largest)
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"Each line is a record of {plan.topic}; Ctrl-D ends.", file=sys.stderr)
    try:
        await production.run()
    except Interrupted as interrupted:
        return fail(_COMMAND, await production.stopped("interrupted"), code=128 + interrupted.number)
    except (BadLine, LineTooLong) as bad:
        await production.finish_lines()
        return fail(_COMMAND, await production.stopped(f"line {production.line:,} {bad}"))
    except UnreadableInput as bad:
        await production.finish_lines()
        return fail(_COMMAND, await production.stopped(str(bad)))
    except ClientError as error:
        return fail(_COMMAND, await production.stopped(str(error)), code=1 if isinstance(error, BrokerError) else 2)
    return 0


async def _partitions(client: Client, plan: ProducePlan) -> int:
    """The number of partitions of the topic, which is created if need be."""
    name = plan.topic
    admin = Admin(client)
    topic = (await admin.topics([name])).topics[name]
    if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and plan.create:
        try:
            await admin.create_topic(name)
        except BrokerError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        client.forget()

        async def made() -> int:
            return len((await client.fetch_metadata([name])).topic(name).partitions)

        partitions = await client.retry(made)
    elif topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise no_such("topic", name, hint="; --create makes it")
    else:
        partitions = len((await client.metadata(name)).topic(name).partitions)
    if plan.partition is not None and plan.partition >= partitions:
        raise NotThere(f"topic {name!r} has no partition {plan.partition}")
    return partitions


class _Production:
    """One run of the command."""

    def __init__(
        self,
        plan: ProducePlan,
        client: Client,
        producer: Producer,
        writer: BatchWriter,
        partitions: int,
        largest: int,
    ) -> None:
        self.line = 0
        """The last one that was looked at."""
        self._plan = plan
        self._client = client
        self._producer = producer
        self._writer = writer
        self._partitions = partitions
        self._largest = largest
        self._committed = 0
        """Records in transactions that were committed."""
        self._open = 0
        """Records of the open transaction."""
        self._progress = Progress("written", is_shown=not sys.stdin.isatty())
        self._stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """All of the input. Raises Interrupted, BadLine, LineTooLong, UnreadableInput, ClientError."""
        with self._signals():
            source = StandardInput()
            coming = asyncio.ensure_future(source.lines())
            try:
                while lines := await self._next(coming):
                    coming = asyncio.ensure_future(source.lines())
                    await self._add_lines(lines)
            finally:
                coming.cancel()
            await self._finish_transaction()
            await self._writer.flush()
            await self._wait_for_markers()
        self._progress.end(f"{self._writer.written:,} records written")

    async def _next(self, coming: "asyncio.Future[list[bytes]]") -> list[bytes]:
        """The next lines. When they are not there yet, what waits leaves."""
        either: set[asyncio.Future[Any]] = {coming, self._stop}
        await asyncio.wait(either, timeout=_LINGER_S, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done() and not self._stop.done():
            self._writer.send()
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.done():
            raise Interrupted(self._stop.result())
        if not coming.done():
            return []
        try:
            return coming.result()
        except LineTooLong:
            self.line += 1
            raise

    async def _add_lines(self, lines: list[bytes]) -> None:
        step = self._plan.batch or len(lines)
        while lines:
            free = step - self._open if self._plan.batch else len(lines)
            some, lines = lines[:free], lines[free:]
            if self._plan.transactional_id is not None and not self._producer.in_transaction:
                self._producer.begin()
            try:
                self._add(some)
            finally:
                self._open = self._writer.taken - self._committed
            if self._plan.batch and self._open == self._plan.batch:
                await self._finish_transaction()
            await self._writer.room()
            self._progress.update(self._writer.written)
            if self._stop.done():
                raise Interrupted(self._stop.result())

    def _add(self, lines: list[bytes]) -> None:
        if self._plan.parse is None:
            fitting = self._before_too_large(lines)
            self.line += len(fitting)
            self._writer.add_values(fitting)
            if len(fitting) < len(lines):
                self.line += 1
                self._check_size(NewRecord(None, lines[len(fitting)]))
            return
        for line in lines:
            self.line += 1
            parsed = self._plan.parse(line)
            self._check(parsed)
            self._writer.add(parsed.record, parsed.partition)

    def _before_too_large(self, lines: list[bytes]) -> list[bytes]:
        """The lines before the first one whose record the topic does not take."""
        longest = max(map(len, lines))
        if longest + RECORD_BYTES + HEADER_BYTES <= self._largest or self._plan.compression is not Compression.NONE:
            return lines
        too_large = (index for index, line in enumerate(lines) if self._too_large(NewRecord(None, line)))
        return lines[: next(too_large, len(lines))]

    def _check(self, parsed: InputRecord) -> None:
        if parsed.partition is not None and parsed.partition >= self._partitions:
            raise BadLine(f"is for partition {parsed.partition}, which topic {self._plan.topic!r} does not have")
        self._check_size(parsed.record)

    def _check_size(self, record: NewRecord) -> None:
        if size := self._too_large(record):
            raise BadLine(
                f"makes a batch of {size:,} bytes, and topic {self._plan.topic!r} takes {self._largest:,}"
                f" ({MAX_MESSAGE_BYTES})"
            )

    def _too_large(self, record: NewRecord) -> int:
        """The bytes of a batch with this record alone, if the topic does not take it; else 0."""
        at_most = record_bytes(record) + HEADER_BYTES
        if at_most <= self._largest or self._plan.compression is not Compression.NONE:
            return 0
        size = len(build_batch([record], timestamp=0))
        return size if size > self._largest else 0

    async def _finish_transaction(self) -> None:
        if self._producer.in_transaction:
            await self._writer.flush()
            await self._producer.commit()
            self._committed = self._writer.taken
            self._open = 0

    async def _wait_for_markers(self) -> None:
        """Wait until readers are shown what was committed: whoever reads after this command finds it."""
        if self._plan.transactional_id is not None and self.line:
            with contextlib.suppress(ClientError):  # the outcome is decided, whoever can tell
                await TransactionAdmin(self._client).wait_for_markers(self._plan.transactional_id)

    # --- how it ends before its time

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """The first SIGINT, SIGTERM or SIGHUP ends the command in order, the second at once. A SIGHUP that is ignored,
        as under nohup, stays so."""
        loop = asyncio.get_running_loop()
        ending = [signal.SIGINT, signal.SIGTERM]
        if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            ending.append(signal.SIGHUP)

        def stop(number: int) -> None:
            if not self._stop.done():
                self._stop.set_result(number)
            for each in ending:
                loop.remove_signal_handler(each)
                signal.signal(each, signal.SIG_DFL)

        with contextlib.suppress(NotImplementedError):  # there is no such thing on Windows
            for each in ending:
                loop.add_signal_handler(each, stop, each)
        yield

    async def finish_lines(self) -> None:
        """Write the lines before a bad one, whatever becomes of their transaction: so it is known what was written."""
        with contextlib.suppress(ClientError):
            await self._writer.flush()

    async def stopped(self, why: str) -> str:
        """End what is open, and say why and what is written, in one sentence."""
        self._progress.clear()
        writer = self._writer
        await writer.settled()
        if self._plan.transactional_id is None:
            unknown = writer.sent - writer.written
            lost = f", and it is not known whether {unknown:,} more are" if unknown else ""
            return f"{why}; {_records(writer.written)} written{lost}"
        done = f"{_records(self._committed)} committed"
        if not self._producer.in_transaction:
            return f"{why}; {done}"
        try:
            await self._producer.abort()
        except ClientError as error:
            if isinstance(error, BrokerError) and error.code in _TAKEN:
                why = f"{why}: another producer has taken the transactional id"
                return f"{why}; {done}, and the open transaction was aborted"
            after = f"the broker does so after {self._plan.transaction_timeout_ms / 1000:g} s"
            return f"{why}; {done}, and the open transaction could not be aborted ({error}): {after}"
        await self._wait_for_markers()
        return f"{why}; {done}, and the open transaction of {self._open:,} was aborted"


def _records(number: int) -> str:
    return "1 record is" if number == 1 else f"{number:,} records are"
