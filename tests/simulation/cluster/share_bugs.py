"""Bugs of share groups (KIP-932): at the leaders of share partitions, and at the coordinators of their states."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from eosin.broker.requests import share_fetch_pass
from eosin.broker.share_states import ShareStates
from eosin.broker.sharing.rules.fetched import ReadBatch
from eosin.broker.sharing.rules.runs import Run
from eosin.broker.sharing.rules.window import ShareWindow
from eosin.coordinator.share_state.rules import decide
from eosin.coordinator.share_states import DeliveryState, StateBatch
from eosin.protocol.errors import ErrorCode
from simulation.planted.places import plant

EARLY_MS = 10_000.0
"""Longer than any lock."""


@contextmanager
def acknowledgements_not_stored() -> Iterator[None]:
    """What a member accepts behind the first record under way is in the leader's memory alone."""
    write = ShareStates.write

    async def careless(self: ShareStates, partition: Any, batches: Any, **rest: Any) -> ErrorCode:
        return await write(self, partition, (), **rest)

    with plant(ShareStates, "write", careless):
        yield


@contextmanager
def locks_end_early() -> Iterator[None]:
    """The end of one lock ends all of its share partition."""
    expire = ShareWindow.expire

    def careless(self: ShareWindow, now_ms: float, **rest: Any) -> list[StateBatch]:
        return expire(self, now_ms + EARLY_MS, **rest)

    with plant(ShareWindow, "expire", careless):
        yield


@contextmanager
def records_given_to_two_members() -> Iterator[None]:
    """A record that somebody has is free for others."""

    def careless(self: Run) -> bool:
        return self.state in (DeliveryState.AVAILABLE, DeliveryState.ACQUIRED) and not self.write

    with plant(Run, "is_free", property(careless)):
        yield


@contextmanager
def start_forgotten_by_a_new_leader() -> Iterator[None]:
    """A leader that reads a state for the first time begins it at the beginning of the log."""
    read = decide.read

    @wraps(read)
    def careless(*state: Any, **rest: Any) -> Any:
        decision = read(*state, **rest)
        return decision._replace(records=tuple(each._replace(start_offset=0) for each in decision.records))

    with plant(decide, "read", careless):
        yield


@contextmanager
def markers_handed_out() -> Iterator[None]:
    """Members are given the offsets of markers, where there is no record."""
    fetched_batches = share_fetch_pass.fetched_batches

    def careless(*read: Any) -> list[ReadBatch]:
        return [each._replace(is_delivered=True) for each in fetched_batches(*read)]

    with plant(share_fetch_pass, "fetched_batches", careless):
        yield


@contextmanager
def aborted_records_handed_out() -> Iterator[None]:
    """Members of a group that reads committed records are given those of aborted transactions, too."""
    fetched_batches = share_fetch_pass.fetched_batches

    def careless(data: Any, _: Any = ()) -> list[ReadBatch]:
        return fetched_batches(data)

    with plant(share_fetch_pass, "fetched_batches", careless):
        yield


@contextmanager
def given_up_before_the_limit() -> Iterator[None]:
    """A record is archived one delivery too early."""
    let_go = ShareWindow._let_go

    def careless(self: ShareWindow, run: Run, delivery_limit: int, has_dead_letters: bool) -> StateBatch:
        return let_go(self, run, delivery_limit - 1, has_dead_letters)

    with plant(ShareWindow, "_let_go", careless):
        yield


SHARE_BUGS = (
    acknowledgements_not_stored,
    locks_end_early,
    records_given_to_two_members,
    start_forgotten_by_a_new_leader,
    markers_handed_out,
    aborted_records_handed_out,
    given_up_before_the_limit,
)
"""All of them."""
