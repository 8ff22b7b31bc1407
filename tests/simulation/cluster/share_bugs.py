"""Bugs of share groups (KIP-932): at the leaders of share partitions, and at the coordinators of their states."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from eosin.broker.requests import share_fetch_pass
from eosin.broker.share_states import ShareStates
from eosin.broker.sharing.rules.fetched import ReadBatch
from eosin.broker.sharing.rules.runs import Run
from eosin.broker.sharing.rules.window import ShareWindow
from eosin.coordinator.share_state.rules import decide
from eosin.coordinator.share_state.rules.records import NO_EPOCH
from eosin.coordinator.share_state.shards import shard
from eosin.coordinator.share_states import DeliveryState, StateBatch
from eosin.protocol.errors import ErrorCode

EARLY_MS = 700.0


@contextmanager
def acknowledgements_not_stored() -> Iterator[None]:
    """What a member accepts behind the first record under way is in the leader's memory alone."""
    write = ShareStates.write

    async def careless(self: ShareStates, partition: Any, batches: Any, **rest: Any) -> ErrorCode:
        return await write(self, partition, (), **rest)

    with patch.object(ShareStates, "write", careless):
        yield


@contextmanager
def locks_end_early() -> Iterator[None]:
    """The end of one lock ends all that would end soon."""
    expire = ShareWindow.expire

    def careless(self: ShareWindow, now_ms: float, **rest: Any) -> list[StateBatch]:
        return expire(self, now_ms + EARLY_MS, **rest)

    with patch.object(ShareWindow, "expire", careless):
        yield


@contextmanager
def records_given_to_two_members() -> Iterator[None]:
    """A record that somebody has is free for others."""

    def careless(self: Run) -> bool:
        return self.state in (DeliveryState.AVAILABLE, DeliveryState.ACQUIRED) and not self.write

    with patch.object(Run, "is_free", property(careless)):
        yield


@contextmanager
def older_leaders_write_states() -> Iterator[None]:
    """A leader whose successor has read the state may still write into it, and tell members that it did."""
    write = decide.write

    @wraps(write)
    def careless(*state: Any, leader_epoch: int, **rest: Any) -> Any:
        return write(*state, leader_epoch=NO_EPOCH, **rest)

    with patch.object(decide, "write", careless):
        yield


@contextmanager
def deliveries_not_stored() -> Iterator[None]:
    """The next leader begins to count deliveries anew, also those of records that were released."""
    kept = decide._kept

    def careless(batch: StateBatch) -> StateBatch:
        batch = kept(batch)
        return batch._replace(delivery_count=0) if batch.state is DeliveryState.AVAILABLE else batch

    with patch.object(decide, "_kept", careless):
        yield


@contextmanager
def start_forgotten_by_a_new_leader() -> Iterator[None]:
    """A leader that reads a state for the first time begins it at the beginning of the log."""
    read = decide.read

    @wraps(read)
    def careless(*state: Any, **rest: Any) -> Any:
        decision = read(*state, **rest)
        return decision._replace(records=tuple(each._replace(start_offset=0) for each in decision.records))

    with patch.object(decide, "read", careless):
        yield


@contextmanager
def states_read_unconfirmed() -> Iterator[None]:
    """A share coordinator that is cut off tells new leaders the states that it remembers (share-state.md 3.6), as
    Apache Kafka's."""
    read = decide.read

    @wraps(read)
    def careless(*state: Any, confirms: bool, **rest: Any) -> Any:
        return read(*state, confirms=False, **rest)

    with patch.object(decide, "read", careless):
        yield


@contextmanager
def states_served_before_they_are_committed() -> Iterator[None]:
    """A share coordinator acts on what it has loaded though its log may yet be cut, as Apache Kafka's."""

    async def careless(*_: Any, **__: Any) -> None:
        """Nothing is waited for."""

    with patch.object(shard, "until_committed", careless):
        yield


@contextmanager
def markers_handed_out() -> Iterator[None]:
    """Members are given the offsets of markers, where there is no record."""
    fetched_batches = share_fetch_pass.fetched_batches

    def careless(*read: Any) -> list[ReadBatch]:
        return [each._replace(is_delivered=True) for each in fetched_batches(*read)]

    with patch.object(share_fetch_pass, "fetched_batches", careless):
        yield


@contextmanager
def aborted_records_handed_out() -> Iterator[None]:
    """Members of a group that reads committed records are given those of aborted transactions, too."""
    fetched_batches = share_fetch_pass.fetched_batches

    def careless(data: Any, _: Any = ()) -> list[ReadBatch]:
        return fetched_batches(data)

    with patch.object(share_fetch_pass, "fetched_batches", careless):
        yield


@contextmanager
def given_up_before_the_limit() -> Iterator[None]:
    """A record is archived one delivery too early."""
    let_go = ShareWindow._let_go

    def careless(self: ShareWindow, run: Run, delivery_limit: int, has_dead_letters: bool) -> StateBatch:
        return let_go(self, run, delivery_limit - 1, has_dead_letters)

    with patch.object(ShareWindow, "_let_go", careless):
        yield


@contextmanager
def unacknowledged_records_skipped_by_the_next_leader() -> Iterator[None]:
    """A leader takes what lies between the batches of a state for done: it was only fetched."""
    with _loading(_filled):
        yield


@contextmanager
def dead_letters_forgotten_by_the_next_leader() -> Iterator[None]:
    """A leader takes records for archived whose dead letters may not be written yet (KIP-1191)."""
    with _loading(_archived):
        yield


@contextmanager
def _loading(changed: Any) -> Iterator[None]:
    """Leaders load other batches than are stored."""
    sound: Any = ShareWindow.loaded.__func__  # type: ignore[attr-defined]

    def careless(cls: type[ShareWindow], start: int, batches: Sequence[StateBatch], **rest: Any) -> ShareWindow:
        window: ShareWindow = sound(cls, start, tuple(changed(start, batches)), **rest)
        return window

    with patch.object(ShareWindow, "loaded", classmethod(careless)):
        yield


def _filled(start: int, batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    end = start
    for batch in batches:
        if batch.first > end:
            yield StateBatch(end, batch.first - 1, DeliveryState.ARCHIVED, 1)
        yield batch
        end = batch.last + 1


def _archived(_: int, batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    for batch in batches:
        is_archiving = batch.state is DeliveryState.ARCHIVING
        yield batch._replace(state=DeliveryState.ARCHIVED) if is_archiving else batch


SHARE_BUGS = (
    acknowledgements_not_stored,
    locks_end_early,
    records_given_to_two_members,
    older_leaders_write_states,
    deliveries_not_stored,
    start_forgotten_by_a_new_leader,
    states_read_unconfirmed,
    states_served_before_they_are_committed,
    markers_handed_out,
    aborted_records_handed_out,
    given_up_before_the_limit,
    unacknowledged_records_skipped_by_the_next_leader,
    dead_letters_forgotten_by_the_next_leader,
)
"""All of them."""
