"""The flight recorder keeps to its memory, whatever happens (console.md 2.2)."""

import random

import pytest
from manual_clock import ManualClock

from eosin.coordinator.ports import Requester
from eosin.coordinator.transactions.entries import PendingRequest
from eosin.coordinator.transactions.rules.decide import decide
from eosin.coordinator.transactions.rules.effects import AllocateProducerId, PersistTransaction, WriteMarkers
from eosin.coordinator.transactions.rules.events import (
    AddPartitions,
    DeadlinePassed,
    EndTxn,
    Event,
    InitProducerId,
    MarkersWritten,
    TransactionAppended,
)
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.network.api import RequestContext
from eosin.observe.recorder.events import Cause, EventKind, Notable
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.recorder.stats import MOST_UNCOUNTED
from eosin.protocol.names import TopicPartition

LEFT_OF_AN_OPEN_ONE = 1500
"""Bytes: begin, who, the last takeover and the last notable event."""


class Coordinator:
    """`decide` and a recorder that hears of it, without a log."""

    def __init__(self, recorder: FlightRecorder) -> None:
        self.recorder = recorder
        self.txns: dict[str, Txn] = {}
        self.now_ms = 1_700_000_000_000
        self.fresh = 0
        self.who: Requester | None = None

    def run(self, name: str, event: Event) -> None:
        """Decide, with everything durable at once."""
        request = PendingRequest(name, event, self.who)
        self.now_ms += 1
        events: list[tuple[Event, PendingRequest | None]] = [(event, request)]
        while events:
            happened, asked = events.pop(0)
            before = self.txns.get(name, Txn(name))
            after, effects = decide(before, happened, self.now_ms)
            self.txns[name] = after
            self.recorder.decided(before, after, happened, effects, asked, self.now_ms)
            for effect in effects:
                if isinstance(effect, AllocateProducerId):
                    self.fresh += 1
                    assert isinstance(event, InitProducerId)
                    events.append((InitProducerId(event.timeout_ms, 2, fresh_producer_id=self.fresh), asked))
                elif isinstance(effect, PersistTransaction):
                    events.append((TransactionAppended(), None if isinstance(event, DeadlinePassed) else asked))
                elif isinstance(effect, WriteMarkers):
                    events.append((MarkersWritten(effect.txn.producer_id, effect.txn.producer_epoch), None))

    def anything(self, chance: random.Random, names: int) -> None:
        """One random event of one random id."""
        name = f"tx-{chance.randrange(names)}"
        txn = self.txns.get(name)
        if txn is None or txn.is_fresh or chance.random() < 0.1:
            return self.run(name, InitProducerId(60_000, 2))
        pair = txn.client_pair
        epoch = max(0, pair.producer_epoch - chance.choice((0, 0, 0, 0, 1)))
        match chance.randrange(4):
            case 0 | 1:
                partitions = frozenset(TopicPartition("orders", index) for index in range(chance.randrange(1, 5)))
                self.run(name, AddPartitions(pair.producer_id, epoch, partitions))
            case 2:
                self.run(name, EndTxn(pair.producer_id, epoch, chance.random() < 0.7, 2))
            case _:
                self.run(name, DeadlinePassed(2, 100_000 if chance.random() < 0.2 else 0))
        return None


@pytest.mark.parametrize(("seed", "names"), [(1, 40), (2, 400), (3, 4000)])
def test_tracks_keep_to_the_limit_and_open_transactions_are_never_dropped(seed: int, names: int) -> None:
    keeps_to_the_limit(seed, names, events=6_000, limit=100_000, looks=256)


def test_fifty_thousand_events_of_many_ids_take_no_more_memory_than_the_limit() -> None:
    keeps_to_the_limit(4, 2_500, events=50_000, limit=100_000, looks=4096)


@pytest.mark.full
@pytest.mark.long
@pytest.mark.timeout(900)  # it only computes, for about half a minute of CPU: a busy machine gives it a tenth of one
def test_a_million_events_take_no_more_memory_than_the_limit() -> None:
    keeps_to_the_limit(4, 50_000, events=1_000_000, limit=2_000_000, looks=65_536)


def keeps_to_the_limit(seed: int, names: int, *, events: int, limit: int, looks: int) -> None:
    recorder = FlightRecorder(ManualClock(), max_bytes=limit)
    coordinator, chance = Coordinator(recorder), random.Random(seed)
    look = looks
    while recorder.events < events:
        coordinator.anything(chance, names)
        if recorder.events >= look:
            look += looks
            open_ids = [name for name, txn in coordinator.txns.items() if txn.state is TransactionState.ONGOING]
            assert recorder.bytes <= limit + LEFT_OF_AN_OPEN_ONE * (len(open_ids) + 2)
    for name, txn in coordinator.txns.items():
        if txn.state is TransactionState.ONGOING:
            history = recorder.history(name)
            assert history is not None, f"{name} is open and was dropped"
    assert recorder.bytes == sum(track.bytes for track in all_tracks(recorder))


def all_tracks(recorder: FlightRecorder) -> list[object]:
    return [*recorder._open.values(), *recorder._shrunk.values(), *recorder._idle.values()]


def test_a_hostile_client_with_endless_ids_drops_the_oldest_of_them_alone() -> None:
    recorder = FlightRecorder(ManualClock(), max_bytes=64_000)
    coordinator = Coordinator(recorder)
    coordinator.run("mine", InitProducerId(60_000, 2))
    coordinator.run("mine", AddPartitions(1, 0, frozenset({TopicPartition("orders", 0)})))
    for number in range(5_000):
        recorder.note(f"strange-{number}", Notable(number, EventKind.FENCED, cause=Cause.UNKNOWN_ID))
    assert recorder.bytes <= 64_000
    assert recorder.dropped_tracks > 4_000
    mine = recorder.history("mine")
    assert mine is not None
    assert [event.kind for event in mine.events] == ["begin"]


def test_events_beyond_the_limit_of_an_open_transaction_are_counted() -> None:
    recorder = FlightRecorder(ManualClock())
    coordinator = Coordinator(recorder)
    coordinator.run("tx", InitProducerId(60_000, 2))
    for index in range(50):
        coordinator.run("tx", AddPartitions(1, 0, frozenset({TopicPartition("orders", index)})))
    history = recorder.history("tx")
    assert history is not None
    assert (len(history.events), history.left_out) == (32, 18)


def test_an_idle_id_takes_at_most_half_a_kib_but_for_what_was_notable() -> None:
    recorder = FlightRecorder(ManualClock(), max_bytes=1 << 30)
    coordinator = Coordinator(recorder)
    for number in range(100):
        name = f"tx-{number}"
        coordinator.run(name, InitProducerId(60_000, 2))
        for _ in range(2):
            pair = coordinator.txns[name].client_pair
            coordinator.run(name, AddPartitions(*pair, frozenset({TopicPartition("orders", 0)})))
            coordinator.run(name, EndTxn(*pair, True, 2))
    assert recorder.bytes / 100 <= 600


def test_transactions_that_nobody_looks_at_are_counted_all_the_same() -> None:
    recorder = FlightRecorder(ManualClock())
    coordinator = Coordinator(recorder)
    coordinator.run("mine", InitProducerId(60_000, 2))
    for _ in range(3 * MOST_UNCOUNTED):
        pair = coordinator.txns["mine"].client_pair
        coordinator.run(
            "mine", AddPartitions(pair.producer_id, pair.producer_epoch, frozenset({TopicPartition("orders", 0)}))
        )
        coordinator.run("mine", EndTxn(pair.producer_id, pair.producer_epoch, True, 2))
        assert len(recorder.stats.uncounted) < MOST_UNCOUNTED
    assert recorder.stats.outcomes == {("commit", "tv2"): 3 * MOST_UNCOUNTED}
    history = recorder.history("mine")
    assert history is not None
    assert [each.who for each in history.past] == [None] * 4


def test_a_transaction_is_told_with_who_opened_it_also_after_another_client_did() -> None:
    recorder = FlightRecorder(ManualClock())
    coordinator = Coordinator(recorder)
    coordinator.run("mine", InitProducerId(60_000, 2))
    for client in ("first", "first", "second", "first"):
        coordinator.who = RequestContext(0, client, "/127.0.0.1", "PLAINTEXT")
        pair = coordinator.txns["mine"].client_pair
        partitions = frozenset({TopicPartition("orders", 0)})
        coordinator.run("mine", AddPartitions(pair.producer_id, pair.producer_epoch, partitions))
        coordinator.run("mine", EndTxn(pair.producer_id, pair.producer_epoch, True, 2))
    history = recorder.history("mine")
    assert history is not None
    assert [each.who and each.who.client_id for each in history.past] == ["first", "first", "second", "first"]
