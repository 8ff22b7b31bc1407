"""Records read from topics and written to standard output.

Always true: what was read is written before more is asked for, and each record once.
"""

import sys
from dataclasses import dataclass
from typing import Final

from eosin.cli.common.remote_commands import NotThere, no_such
from eosin.cli.records.output_lines import Format
from eosin.cli.records.positions import Start, StartKind, offsets_of
from eosin.cli.records.progress import Progress
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord, Consumer
from eosin.client.errors import BrokerError
from eosin.client.groups import GroupAdmin
from eosin.client.offsets import EARLIEST, LATEST, list_offsets
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.runtime.clock import SystemClock

_MAX_BYTES: Final = 8 * 1024 * 1024
"""Of one response: its records are all in memory at once."""
_POLL_MS: Final = 500


@dataclass(frozen=True, slots=True)
class ConsumePlan:
    """The records to read, and the way they are shown."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    """Of each topic; empty for all."""
    begin: Start
    end: Start | None
    """None for the present end."""
    group: str | None
    """Read on from where it is."""
    count: int | None
    follow: bool
    isolation: IsolationLevel
    with_control: bool
    format: Format


async def consume(client: Client, plan: ConsumePlan) -> int:
    """Write the records; the exit code. Raises NotThere, ClientError, BrokenPipeError."""
    partitions = await _partitions(client, plan)
    now_ms = SystemClock().now_ms()
    positions = await offsets_of(client, plan.begin, partitions, isolation=plan.isolation, now_ms=now_ms)
    if plan.group is not None:
        positions |= await _of_group(client, plan.group, positions)
    ends = None
    if not plan.follow:
        end = plan.end or Start(StartKind.LATEST)
        ends = await offsets_of(client, end, partitions, isolation=plan.isolation, now_ms=now_ms)
    to_terminal = sys.stdout.isatty()
    progress = Progress("read", is_shown=not to_terminal)
    written = await _Consumption(client, plan, positions, ends, progress).run()
    if not to_terminal:
        progress.end(f"{written:,} records read")
    if (
        ends is not None
        and plan.end is None
        and plan.isolation is IsolationLevel.READ_COMMITTED
        and sys.stderr.isatty()
    ):
        await _report_open_transactions(client, ends)
    return 0


async def _partitions(client: Client, plan: ConsumePlan) -> list[TopicPartition]:
    found = (await Admin(client).topics(plan.topics)).topics
    partitions = []
    for name in plan.topics:
        if found[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_such("topic", name)
        there = sorted((await client.metadata(name)).topic(name).partitions)
        for each in plan.partitions:
            if each not in there:
                raise NotThere(f"topic {name!r} has no partition {each}")
        partitions += [TopicPartition(name, each) for each in plan.partitions or there]
    return partitions


async def _of_group(client: Client, group: str, positions: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The group's positions in these partitions; the first offset if the records at a position are gone."""
    committed = {each: at for each, at in (await GroupAdmin(client).offsets(group)).items() if each in positions}
    if not committed:
        topics = ", ".join(sorted({each.topic for each in positions}))
        raise NotThere(f"group {group!r} has no position in {topics}", kind="group", name=group)
    starts = await list_offsets(client, dict.fromkeys(committed, EARLIEST))
    return {each: max(at, starts[each]) for each, at in committed.items()}


class _Consumption:
    """One run of the command."""

    def __init__(
        self,
        client: Client,
        plan: ConsumePlan,
        positions: dict[TopicPartition, int],
        ends: dict[TopicPartition, int] | None,
        progress: Progress,
    ) -> None:
        self._client = client
        self._plan = plan
        self._ends = ends
        self._progress = progress
        self._written = 0
        self._consumer = Consumer(
            client, isolation=plan.isolation, max_bytes=_MAX_BYTES, with_control=plan.with_control
        )
        self._left = positions
        self._consumer.assign(positions)

    async def run(self) -> int:
        """Consume until the plan is done; return the number of records that were written."""
        self._drop_finished()
        while self._left and self._written != self._plan.count:
            try:
                records = await self._consumer.poll(_POLL_MS)
            except BrokerError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                await self._skip_deleted(error)
                continue
            self._write(self._wanted(records))
            self._drop_finished()
        return self._written

    def _wanted(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        ends = self._ends
        if ends is not None:
            records = [each for each in records if each.record.offset < ends[each.partition]]
        if self._plan.count is not None:
            records = records[: self._plan.count - self._written]
        return records

    def _write(self, records: list[ConsumedRecord]) -> None:
        if records:
            self._progress.clear()
            sys.stdout.buffer.write(b"".join(map(self._plan.format, records)))
            sys.stdout.buffer.flush()
            self._written += len(records)
            self._progress.update(self._written)

    def _drop_finished(self) -> None:
        """Do not ask again for partitions that were read to their ends."""
        ends = self._ends
        if ends is None:
            return
        left = {}
        for each in self._left:
            position = self._consumer.position(each)
            if position < ends[each]:
                left[each] = position
        if len(left) < len(self._left):
            self._consumer.assign(left)
        self._left = left

    async def _skip_deleted(self, refused: BrokerError) -> None:
        """Go on where the logs are now: what was next has been deleted, or the topic is another one by that name."""
        starts = await list_offsets(self._client, dict.fromkeys(self._left, EARLIEST))
        latest = await list_offsets(self._client, dict.fromkeys(self._left, LATEST))
        positions = {}
        for each in self._left:
            position = self._consumer.position(each)
            positions[each] = starts[each] if not starts[each] <= position <= latest[each] else position
            if position != positions[each]:
                self._progress.clear()
                say(f"{each}: offset {position} is gone, the log begins at {starts[each]}")
        if all(position == self._consumer.position(each) for each, position in positions.items()):
            raise refused
        self._left = positions
        self._consumer.assign(positions)


async def _report_open_transactions(client: Client, ends: dict[TopicPartition, int]) -> None:
    latest = await list_offsets(client, dict.fromkeys(ends, LATEST))
    for each, end in ends.items():
        if latest[each] > end:
            say(f"{each}: offsets {end} to {latest[each] - 1} are behind an open transaction")


def say(sentence: str) -> None:
    """Tell the user about the records that were not shown."""
    print(f"eosin consume: {sentence}", file=sys.stderr)
