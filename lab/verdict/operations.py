"""`VerdictOperations`: the facts of a verdict, and the sentences of assertions that fail.

Always true: an assertion returns nothing when it holds, else a sentence and the evidence, so that it can be made from
another process as well.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from eosin.lab.common.errors import NotToldError, unknown
from eosin.lab.common.values import ConnectionInWork, ReadRecord, StoredBatch, TransactionSeen
from eosin.lab.faults.values import RuleSeen
from eosin.lab.history.occurrences import ANSWERED, Occurrence
from eosin.lab.history.recording import Recording
from eosin.lab.verdict.facts import ExactlyOnceFacts, GroupPosition, LoggedPartition
from eosin.lab.verdict.records import text_of_id, text_of_record
from eosin.lab.verdict.transactions import LoggedTransaction, transactions_in
from eosin.runtime.clock import SystemClock

CAUSES: Final = {
    "successor": frozenset({"successor"}),
    "timeout": frozenset({"timeout"}),
    "operator": frozenset({"operator", "admin_fence"}),
}
"""The causes of a fence, as tests name them, and as the coordinator's recorder does."""
MOST_LINES: Final = 20
_COMMITTED: Final = "read_committed"
_UNCOMMITTED: Final = "read_uncommitted"
_TRIES: Final = 3
_RECHECK_MS: Final = 20
"""Of a broker whose history does not tell when something has changed."""
_COMMITS: Final = frozenset({"OffsetCommit", "OffsetDelete", "ShareAcknowledge", "ShareFetch"})


class BrokerReads(Protocol):
    """The part of `Operations` that a verdict needs."""

    recording: Recording | None

    async def topic_names(self) -> list[str]: ...
    async def partition_count(self, name: str) -> int: ...
    async def read(self, name: str, isolation: str, partition: int | None) -> list[ReadRecord]: ...
    async def batches(self, name: str, partition: int | None) -> list[StoredBatch]: ...
    async def end_offset(self, name: str, partition: int, isolation: str) -> int: ...
    async def committed_offset(self, group_id: str, topic: str, partition: int) -> int | None: ...
    async def pending_offset(self, group_id: str, topic: str, partition: int) -> int | None: ...
    async def lag(self, group_id: str, topic: str | None) -> int: ...
    async def open_transactions(self) -> list[TransactionSeen]: ...
    async def connections(self) -> list[ConnectionInWork]: ...
    async def fences(self, transactional_id: str) -> list[str]: ...
    async def explain(self, subject: str) -> str: ...
    async def last_lines(self, count: int) -> list[str]: ...
    async def rule_lines(self) -> list[str]: ...
    async def faults(self) -> list[RuleSeen]: ...
    async def fault_seed(self) -> int: ...
    async def unconsumed(self, group_id: str, topic: str) -> list[str]: ...


class VerdictOperations:
    """The part of `Operations` that judges."""

    # Facts ----------------------------------------------------------------------------------------------------------

    async def exactly_once_facts(
        self: BrokerReads, input_topics: list[str], output_topics: list[str], group: str | None
    ) -> ExactlyOnceFacts:
        """The facts about an application, of one moment, unless somebody always writes. Raises LabError."""
        for attempt in range(_TRIES):
            before = await _marks(self, [*input_topics, *output_topics], group, input_topics)
            facts = ExactlyOnceFacts(
                await _logged(self, input_topics),
                await _logged(self, output_topics),
                group,
                tuple(await _committed(self, group, input_topics)),
                tuple(await self.open_transactions()),
            )
            is_moving = before != await _marks(self, [*input_topics, *output_topics], group, input_topics)
            if not is_moving:
                return facts
            if attempt == _TRIES - 1:
                break
        return ExactlyOnceFacts(facts.input, facts.output, group, facts.committed, facts.open, is_moving=True)

    # Waits ----------------------------------------------------------------------------------------------------------

    async def unconsumed(self: BrokerReads, group_id: str, topic: str) -> list[str]:
        """A sentence for each partition that a group has not committed to its end, or whose offset is undecided."""
        if await self.lag(group_id, topic) == 0:
            return await _undecided(self, group_id, topic)
        found = []
        for index in range(await self.partition_count(topic)):
            committed = await self.committed_offset(group_id, topic, index)
            records = await self.read(topic, _COMMITTED, index)
            left = [each for each in records if each.offset >= (committed or 0)]
            if left:
                at = "nothing" if committed is None else str(committed)
                found.append(f"{topic}-{index}: committed {at} of {left[-1].offset + 1}, {len(left)} records unread")
        return found

    async def await_consumed(self: BrokerReads, group_id: str, topic: str, wait_ms: int) -> list[str]:
        """The same, once nothing is left or the time is up."""
        clock, recording = SystemClock(), self.recording
        end_ms = clock.elapsed_ms() + wait_ms
        while True:
            since = 0 if recording is None else recording.last
            left = await self.unconsumed(group_id, topic)
            left_ms = end_ms - clock.elapsed_ms()
            if not left or left_ms <= 0:
                return left
            if recording is None:
                await clock.sleep(min(_RECHECK_MS, left_ms))
                continue
            while left_ms > 0:
                last = await recording.changed(since, left_ms)
                if any(map(_may_move_offsets, recording.occurrences(since))):
                    break
                since, left_ms = last, end_ms - clock.elapsed_ms()

    async def situation(self: BrokerReads, lines: int) -> str:
        """The state of affairs for a wait that was in vain: open transactions, requests under way, rules, the last
        lines of the history."""
        said = [await self.explain(each.transactional_id) for each in (await self.open_transactions())[:MOST_LINES]]
        with suppress(NotToldError):
            said += [str(each) for each in await self.connections() if each.waits_for]
        rules = await self.rule_lines()
        if rules:
            said += ["the rules of its faults:", *(f"  {each}" for each in rules)]
        history = await self.last_lines(lines)
        if history:
            said += ["the last of the history:", *(f"  {each}" for each in history)]
        return "\n".join(said)

    async def rule_lines(self: BrokerReads) -> list[str]:
        """The rules of scripted faults, each with its counts and what it holds."""
        return [
            f"{each.words}: matched {each.matched}, fired {each.fired}" + (f", holds {each.held}" if each.held else "")
            for each in await self.faults()
        ]

    async def connection_lines(self: BrokerReads) -> list[str]:
        """The clients, and what each waits for; why not for a broker that is not of the lab."""
        try:
            return [str(each) for each in await self.connections()]
        except NotToldError as refused:
            return [f"not told: {refused}"]

    async def seed_text(self: BrokerReads) -> str:
        """The seed of rules that fire by chance, in words; nothing for a broker that is not of the lab."""
        with suppress(NotToldError):
            return f"seed {await self.fault_seed()}"
        return ""

    # Assertions -----------------------------------------------------------------------------------------------------

    async def why_not_committed(self: BrokerReads, topic: str, values: list[bytes | None], ordered: bool) -> str:
        """The difference between the committed values of a topic and `values`."""
        records = await self.read(topic, _COMMITTED, None)
        found = [each.value for each in records]
        if found == values or (not ordered and sorted(found, key=repr) == sorted(values, key=repr)):
            return ""
        missing, surplus = list(values), []
        for record in records:
            if record.value in missing:
                missing.remove(record.value)
            else:
                surplus.append(record)
        if not missing and not surplus:
            return f"{topic} has these values in another order: {_some(text_of_id(each) for each in found)}"
        lines = [f"{topic} has not the committed values that it should have:"]
        hidden = await _hidden(self, topic)
        for value in missing[:MOST_LINES]:
            reasons = [why for record, why in hidden if record.value == value]
            lines.append(f"  missing {text_of_id(value)}{''.join(f'; {each}' for each in reasons)}")
        lines += [f"  not expected {text_of_record(each)}" for each in surplus[:MOST_LINES]]
        return "\n".join(lines)

    async def why_visible(self: BrokerReads, values: list[bytes | None], topics: list[str] | None) -> str:
        """The places where readers of committed records get any of `values`."""
        lines = []
        for topic in await self.topic_names() if topics is None else topics:
            shown = await self.read(topic, _COMMITTED, None)
            lines += [f"  {text_of_record(each)}" for each in shown if each.value in values]
        if not lines:
            return ""
        return "\n".join(["readers of committed records get what they should never see:", *lines[:MOST_LINES]])

    async def why_not_fenced(self: BrokerReads, transactional_id: str, by: str | None) -> str:
        """The causes for which producers of the id were fenced, if `by` is none of them."""
        if by is not None and by not in CAUSES:
            raise unknown("cause of a fence", by, CAUSES)
        found = await self.fences(transactional_id)
        if found and (by is None or any(each in CAUSES[by] for each in found)):
            return ""
        named = "" if by is None else f" by {'an' if by == 'operator' else 'a'} {by}"
        causes = ", ".join(each.replace("_", " ") for each in dict.fromkeys(found))
        others = f", but by {causes}" if causes else ""
        return f"no producer of {transactional_id} was fenced{named}{others}: {await self.explain(transactional_id)}"

    async def why_not_offsets(self: BrokerReads, group_id: str, offsets: list[tuple[str, int, int | None]]) -> str:
        """The partitions whose committed offset of a group is another one."""
        lines = []
        for topic, partition, wanted in offsets:
            found = await self.committed_offset(group_id, topic, partition)
            if found != wanted:
                pending = await _pending(self, group_id, topic, partition)
                held = "" if pending is None else f"; an open transaction holds {pending}"
                lines.append(f"  {topic}-{partition} is at {_offset(found)} and not at {_offset(wanted)}{held}")
        if not lines:
            return ""
        return "\n".join([f"group {group_id} has committed other offsets:", *lines])

    async def why_open(self: BrokerReads) -> str:
        """The explanation of each transaction that is open."""
        found = [await self.explain(each.transactional_id) for each in await self.open_transactions()]
        if not found:
            return ""
        number = f"{len(found)} transactions are" if len(found) > 1 else "a transaction is"
        return "\n".join([f"{number} still open:", *found])

    async def why_not_quiet(self: BrokerReads) -> str:
        """All that is under way: transactions, and requests that are not answered, but for reads that wait."""
        lines = [await self.explain(each.transactional_id) for each in await self.open_transactions()]
        lines += [str(each) for each in await self.connections() if each.waits_for]
        return "" if not lines else "\n".join(["the broker is not quiet:", *(f"  {each}" for each in lines)])


# Parts ----------------------------------------------------------------------------------------------------------------


async def _logged(broker: BrokerReads, topics: Iterable[str]) -> tuple[LoggedPartition, ...]:
    found = []
    for topic in topics:
        for index in range(await broker.partition_count(topic)):
            shown = await broker.read(topic, _COMMITTED, index)
            found.append(
                LoggedPartition(
                    topic,
                    index,
                    tuple(await broker.read(topic, _UNCOMMITTED, index)),
                    tuple(each.offset for each in shown),
                    tuple(await broker.batches(topic, index)),
                    await broker.end_offset(topic, index, _COMMITTED),
                    await broker.end_offset(topic, index, _UNCOMMITTED),
                )
            )
    return tuple(found)


async def _committed(broker: BrokerReads, group: str | None, topics: Iterable[str]) -> list[GroupPosition]:
    found = []
    for topic in topics if group is not None else ():
        for index in range(await broker.partition_count(topic)):
            offset = await broker.committed_offset(group or "", topic, index)
            if offset is not None:
                found.append(GroupPosition(topic, index, offset))
    return found


async def _marks(
    broker: BrokerReads, topics: Iterable[str], group: str | None, read: Iterable[str]
) -> tuple[list[tuple[int, int]], list[GroupPosition]]:
    """Numbers that change with each write and each commit."""
    ends = [
        (await broker.end_offset(topic, index, _UNCOMMITTED), await broker.end_offset(topic, index, _COMMITTED))
        for topic in topics
        for index in range(await broker.partition_count(topic))
    ]
    return ends, await _committed(broker, group, read)


async def _pending(broker: BrokerReads, group_id: str, topic: str, partition: int) -> int | None:
    try:
        return await broker.pending_offset(group_id, topic, partition)
    except NotToldError:
        return None


async def _undecided(broker: BrokerReads, group_id: str, topic: str) -> list[str]:
    found = []
    for index in range(await broker.partition_count(topic)):
        pending = await _pending(broker, group_id, topic, index)
        if pending is not None:
            found.append(f"{topic}-{index}: an open transaction holds offset {pending}")
    return found


async def _hidden(broker: BrokerReads, topic: str) -> list[tuple[ReadRecord, str]]:
    """Records that readers of committed records do not get, each with the reason."""
    found = []
    for partition in await _logged(broker, [topic]):
        for transaction in transactions_in(partition):
            for record in partition.records:
                if transaction.holds(record.offset) and record.offset not in partition.visible:
                    found.append((record, await _why_hidden(broker, record, transaction)))
    return found


async def _why_hidden(broker: BrokerReads, record: ReadRecord, transaction: LoggedTransaction) -> str:
    place = f"{record.topic}-{record.partition}"
    owner = f"producer {transaction.producer_id} epoch {transaction.producer_epoch}"
    if transaction.outcome == "open":
        return f"it is at {place}:{record.offset} in an open transaction of {owner}: {await broker.explain(place)}"
    if transaction.outcome == "abort":
        return f"it is at {place}:{record.offset} in a transaction of {owner} that was aborted"
    return f"it is at {place}:{record.offset}, behind an open transaction: {await broker.explain(place)}"


def _may_move_offsets(event: Occurrence) -> bool:
    return event.what == "complete" or (event.what == ANSWERED and event.api in _COMMITS)


def _offset(offset: int | None) -> str:
    return "nothing" if offset is None else str(offset)


def _some(texts: Iterable[str]) -> str:
    found: Sequence[str] = list(texts)
    more = f" and {len(found) - MOST_LINES} more" if len(found) > MOST_LINES else ""
    return ", ".join(found[:MOST_LINES]) + more
