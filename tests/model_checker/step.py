"""`Step`: a state being changed by one step, and what the rules say to each change."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eosin.protocol.names import TopicPartition
from model_checker.bounds import Bounds
from model_checker.forgetting import without_what_is_over
from model_checker.partition import Partitions
from model_checker.values import (
    ALIVE,
    DATA,
    GUARD,
    LOST_GUARD,
    NO_TAG,
    OFFSETS,
    Client,
    Message,
    Part,
    Records,
    State,
    client_name,
    tag_name,
    tag_of_record,
)
from model_checker.violation import ATOMIC, ONCE, SINGLE_WRITER, VISIBLE, Violation


@dataclass
class World:
    """What does not change: the bounds, and what partitions are known to answer."""

    bounds: Bounds
    partitions: Partitions = field(default_factory=Partitions)
    is_told: bool = False
    """Whether steps say in words what happens in them."""

    def __post_init__(self) -> None:
        data = DATA[: self.bounds.partitions]
        self.topic_partitions: Sequence[TopicPartition] = (*data, OFFSETS) if self.bounds.offsets else data
        self.index_of = {partition: index for index, partition in enumerate(self.topic_partitions)}

    def is_offsets(self, partition: int) -> bool:
        """Whether it is the one that TxnOffsetCommit writes to."""
        return partition >= self.bounds.partitions


class Step:
    """One state on its way to the next."""

    __slots__ = (
        "_before",
        "budget",
        "clients",
        "committed",
        "coordinator",
        "messages",
        "notes",
        "outside",
        "parts",
        "world",
    )

    def __init__(self, world: World, state: State) -> None:
        self.world = world
        self.coordinator = state.coordinator
        self.parts = list(state.parts)
        self.clients = list(state.clients)
        self.messages = list(state.messages)
        self._before = state.messages
        self.committed = state.committed
        self.outside = state.outside
        self.budget = state.budget
        self.notes: list[str] = []

    def state(self) -> State:
        """What it has come to."""
        return without_what_is_over(
            State(
                self.coordinator,
                tuple(self.parts),
                tuple(self.clients),
                self._messages(),
                self.committed,
                self.outside,
                self.budget,
            )
        )

    def _messages(self) -> tuple[Message, ...]:
        """The very same tuple when nothing was sent, and nothing has arrived."""
        self.messages.sort()
        messages = tuple(self.messages)
        return self._before if messages == self._before else messages

    def note(self, text: str) -> None:
        """Something worth a word in a trace."""
        if self.world.is_told:
            self.notes.append(text)

    def spend(self, what: str) -> None:
        """One time fewer."""
        self.budget = self.budget._replace(**{what: getattr(self.budget, what) - 1})

    # Messages -------------------------------------------------------------------------------------------------------

    def change(self, message: Message, **fields: Any) -> Message:
        """Replace a message by one that differs."""
        self.messages.remove(message)
        changed = message._replace(**fields)
        self.messages.append(changed)
        return changed

    def change_client(self, client: int, **fields: Any) -> Client:
        """Replace what an instance is."""
        changed = self.clients[client]._replace(**fields)
        self.clients[client] = changed
        return changed

    # Partitions -----------------------------------------------------------------------------------------------------

    def records(self, partition: int) -> Records:
        """What a partition holds now."""
        return self.parts[partition].now

    def set_records(self, partition: int, after: Records) -> None:
        """A partition has changed in memory alone."""
        part = self.parts[partition]
        if part.now.verifying != after.verifying:
            self._drop_guards(partition, part.now, after)
        self.parts[partition] = part._replace(now=after)

    def _drop_guards(self, partition: int, before: Records, after: Records) -> None:
        held = {each.producer_id for each in after.verifying}
        for gone in {each.producer_id for each in before.verifying} - held:
            for index, message in enumerate(self.messages):
                # Of the messages only Produce has a guard, and its argument is the partition.
                if message.guard == GUARD and message.argument == partition and message.producer_id == gone:
                    self.messages[index] = message._replace(guard=LOST_GUARD)

    def part_is_durable(self, partition: int) -> None:
        """All that a partition holds is on its disk."""
        now = self.parts[partition].now
        durable = now if not now.verifying else now._replace(verifying=())
        self.parts[partition] = Part(now, durable)

    # Rules ----------------------------------------------------------------------------------------------------------

    def judge_append(self, message: Message) -> None:
        """A record of an instance was accepted."""
        if self.world.bounds.two_phase and self.is_unprepared(message.tag):
            return  # whoever keeps a transaction that was not prepared aborts it, and with it what still comes (ADR 18)
        if self.clients[message.client].fenced:
            raise Violation(
                SINGLE_WRITER, f"a record of {client_name(message.client)} is accepted, which has been replaced"
            )

    def is_unprepared(self, tag: int) -> bool:
        """Whether no external coordinator waits for this transaction."""
        return self.outside is None or self.outside.tag != tag

    def judge_pair(self, client: int, producer_id: int, producer_epoch: int) -> None:
        """An instance is given a pair."""
        for other, each in enumerate(self.clients):
            if other != client and (each.producer_id, each.producer_epoch) == (producer_id, producer_epoch):
                raise Violation(
                    SINGLE_WRITER,
                    f"{client_name(client)} is given ({producer_id}, {producer_epoch}), which {client_name(other)} has",
                )
        if self.clients[client].fenced:
            raise Violation(SINGLE_WRITER, f"{client_name(client)}, which has been replaced, is given a pair")

    def judge_marker(self, partition: int, records: tuple[int, ...], *, commit: bool, tag: int) -> None:
        """A marker of the transaction `tag` has ended `records`."""
        for each in sorted({tag_of_record(record) for record in records}):
            if tag not in (NO_TAG, each):
                raise Violation(
                    ONCE, f"a record of {tag_name(each)} is ended by the marker of {tag_name(tag)} in {partition}"
                )
            is_committed = bool(self.committed >> each & 1)
            if commit and not is_committed:
                raise Violation(ATOMIC, f"a record of {tag_name(each)} is committed, and no decision to is durable")
            if not commit and not self.is_unprepared(each):
                raise Violation(
                    ATOMIC, f"a record of {tag_name(each)} is aborted, which was prepared and decided outside"
                )
            if not commit and is_committed:
                raise Violation(ATOMIC, f"a record of {tag_name(each)} is aborted, and its COMMIT is durable")

    def judge_commit(self, tag: int) -> None:
        """The decision to commit `tag` is durable."""
        for index, part in enumerate(self.parts):
            aborted = any(tag_of_record(name) == tag and not commit for name, commit in part.now.decided)
            if aborted and not self.world.is_offsets(index):
                raise Violation(ATOMIC, f"{tag_name(tag)} is committed, and a record of it was aborted before")
        self.committed |= 1 << tag

    def judge_told(self, client: int, tag: int, *, commit: bool) -> None:
        """An instance hears how its transaction has ended."""
        if tag == NO_TAG:
            return
        is_committed = bool(self.committed >> tag & 1)
        if not commit:
            if is_committed:
                raise Violation(VISIBLE, f"{tag_name(tag)} was answered as aborted, and its COMMIT is durable")
            return
        if not is_committed:
            raise Violation(VISIBLE, f"{tag_name(tag)} was answered as committed, and no decision is durable")
        written = self.clients[client].written
        for partition in set(written):
            records = self.parts[partition].now
            names = [name for name, is_commit in records.decided if is_commit]
            names += (name for each in records.producers for name in each.records)
            here = sum(tag_of_record(name) == tag for name in names)
            if here < (1 if self.world.is_offsets(partition) else written.count(partition)):
                raise Violation(
                    VISIBLE, f"{tag_name(tag)} was answered as committed, and a record in {partition} is not there"
                )

    def new_instance_has_pair(self, client: int) -> None:
        """Whoever had a pair before is fenced from now on."""
        for other, each in enumerate(self.clients):
            if other != client and each.phase == ALIVE and each.producer_id >= 0:
                self.clients[other] = each._replace(fenced=True)
