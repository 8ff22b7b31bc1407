"""Bugs to plant in the code, so that the search can be checked: each is what a careless change might do.

Beside each stand the rules one of which it breaks, and bounds in which that shows.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import msgspec

from eosin.cluster.replication.rules import followed_partition, high_watermark, isr, leading
from eosin.cluster.replication.rules.followed_partition import FollowerDecision
from eosin.cluster.replication.rules.led_partition import LedPartition
from eosin.cluster.replication.rules.positions import UNKNOWN_EPOCH, Follower
from eosin.protocol.errors import ErrorCode
from eosin.storage.log.leader_epochs import LeaderEpochs
from model_checker.replication import steps
from model_checker.replication.rules import COMES_TO_REST, COMMITTED, DURABLE, EQUAL, JUSTIFIED
from model_checker.replication.values import Bounds


class Planted(NamedTuple):
    """A bug, and where it shows."""

    plant: Callable[[], AbstractContextManager[Any]]
    rules: tuple[str, ...]
    bounds: Bounds


def _bounds(about: str, **bounds: Any) -> Bounds:
    return Bounds("planted", about, **bounds)


def leader_counts_its_log_end() -> AbstractContextManager[Any]:
    """The leader's own share of the high watermark is its log end, as in Apache Kafka."""
    sound = high_watermark.next_high_watermark

    def careless(led: LedPartition, before: int, *, log_end: int, **rest: Any) -> int:
        return sound(led, before, **{**rest, "durable_end": log_end}, log_end=log_end)

    return patch.object(leading, "next_high_watermark", careless)


def min_in_sync_ignored() -> AbstractContextManager[Any]:
    """The high watermark moves below min.insync.replicas."""
    sound = high_watermark.next_high_watermark

    def careless(led: LedPartition, before: int, **rest: Any) -> int:
        return sound(led, before, **{**rest, "min_in_sync": 1})

    return patch.object(leading, "next_high_watermark", careless)


def pending_members_do_not_count() -> AbstractContextManager[Any]:
    """A replica that the controller may have taken into the ISR already does not hold the high watermark."""
    return patch.object(LedPartition, "maximal_isr", property(lambda self: self.isr))


def shrink_applied_before_it_is_confirmed() -> AbstractContextManager[Any]:
    """The leader acts on the ISR that it has asked for."""
    sound = isr.shrinking

    def careless(led: LedPartition, **rest: Any) -> LedPartition | None:
        asked = sound(led, **rest)
        if asked is None or asked.pending is None:
            return asked
        return msgspec.structs.replace(asked, isr=asked.pending.node_ids)

    return patch.object(isr, "shrinking", careless)


def positions_outlive_an_election() -> AbstractContextManager[Any]:
    """A leader that is elected again goes on with what it knew of its followers."""
    sound = leading.election_or_change

    def careless(led: LedPartition | None, node_id: int, metadata: Any, log: Any, around: Any) -> Any:
        after = sound(led, node_id, metadata, log, around)
        if led is None or led is after.led:
            return after
        known = tuple(led.follower(each.node_id) or each for each in after.led.followers)
        kept = msgspec.structs.replace(after.led, followers=known, epoch_start=0)
        return after._replace(led=kept)

    return patch.object(leading, "election_or_change", careless)


@contextmanager
def positions_keyed_by_node_alone() -> Iterator[None]:
    """A position counts for whatever incarnation the image shows (KIP-903)."""
    fetched = Follower.fetched

    def careless(self: Follower, offset: int, *, told_epoch: int, **rest: Any) -> Follower:
        return fetched(self, offset, told_epoch=UNKNOWN_EPOCH, **rest)

    with (
        patch.object(Follower, "fetched", careless),
        patch.object(leading, "refusal", lambda led, fetch, around: ErrorCode.NONE),
    ):
        yield


def joins_before_the_high_watermark() -> AbstractContextManager[Any]:
    """A follower is taken into the ISR wherever it is."""
    sound = isr.expansion

    def careless(led: LedPartition, node_id: int, **rest: Any) -> LedPartition | None:
        return sound(msgspec.structs.replace(led, epoch_start=0), node_id, **{**rest, "high_watermark": 0})

    return patch.object(isr, "expansion", careless)


def never_truncated() -> AbstractContextManager[Any]:
    """A follower whose log parts from its leader's goes on as if it did not."""

    def careless(followed: Any, divergence: Any, log: Any) -> FollowerDecision:
        return FollowerDecision(followed)

    return patch.object(followed_partition, "_diverged", careless)


def divergence_not_told() -> AbstractContextManager[Any]:
    """A leader does not compare histories."""
    return patch.object(steps, "compare_histories", lambda *_, **__: None)


def truncated_to_the_high_watermark() -> AbstractContextManager[Any]:
    """A new follower cuts its log to its high watermark at once (before KIP-101)."""
    learn = steps._learn

    def learned(state: Any, node: int, bounds: Bounds) -> Any:
        before = state.replicas[node].followed
        state = learn(state, node, bounds)
        replica = state.replicas[node]
        if replica.followed is None or replica.followed == before:
            return state
        log = steps.Log(replica)
        log.truncate(replica.high_watermark)
        return steps._with(state, node, log.into(replica))

    return patch.object(steps, "_learn", learned)


def fetched_before_it_is_durable() -> AbstractContextManager[Any]:
    """A follower asks for what follows records that it has not synced."""
    return patch.multiple(
        "model_checker.replication.steps",
        is_durable=lambda log: True,
        position_of=lambda followed, log: followed_partition.FetchPosition(
            followed.leader_epoch, log.log_end_offset, log.epochs.latest, 0
        ),
    )


def epochs_not_entered() -> AbstractContextManager[Any]:
    """A new leader does not note where its epoch begins, but only with its first record, and answers by that."""
    sound = LeaderEpochs.end_offset_for

    def careless(self: LeaderEpochs, epoch: int, log_end_offset: int) -> tuple[int, int]:
        if epoch >= 0 and self._entries and epoch < self.latest:
            return epoch, log_end_offset
        return sound(self, epoch, log_end_offset)

    return patch.object(LeaderEpochs, "end_offset_for", careless)


def refused_change_stays_under_way() -> AbstractContextManager[Any]:
    """A change with a replica that the controller calls ineligible is never asked for again."""
    return patch.object(isr, "_INELIGIBLE", frozenset())


def lost_answer_not_repeated() -> AbstractContextManager[Any]:
    """A change whose answer was lost is taken for settled, and the ISR for what it was."""
    sound = isr.controller_responded

    def careless(led: LedPartition, change: Any, answer: Any, **rest: Any) -> Any:
        if answer.error is ErrorCode.NETWORK_EXCEPTION:
            return msgspec.structs.replace(led, pending=None), isr.AfterResult.SETTLED
        return sound(led, change, answer, **rest)

    return patch.object(isr, "controller_responded", careless)


_CRASH: Final = _bounds("two replicas, a crash", crashes=1)
_ELR: Final = _bounds("two replicas in sync, a crash", appends=1, min_in_sync=2, elr=True, crashes=2)

PLANTED: Final = {
    "leader-counts-its-log-end": Planted(leader_counts_its_log_end, (DURABLE,), _bounds("one crash", appends=1)),
    "min-in-sync-ignored": Planted(min_in_sync_ignored, (JUSTIFIED, COMMITTED), _ELR),
    "pending-members-do-not-count": Planted(pending_members_do_not_count, (JUSTIFIED, COMMITTED), _CRASH),
    "shrink-applied-before-it-is-confirmed": Planted(
        shrink_applied_before_it_is_confirmed, (JUSTIFIED, COMMITTED), _bounds("a lag", appends=1, lags=1)
    ),
    "positions-outlive-an-election": Planted(
        positions_outlive_an_election,
        (JUSTIFIED, COMMITTED),
        _bounds("three replicas, two elections", brokers=3, appends=1, elections=2, fair_every=1000),
    ),
    "positions-keyed-by-node-alone": Planted(
        positions_keyed_by_node_alone,
        (JUSTIFIED, COMMITTED),
        _bounds("an empty disk", appends=1, crashes=1, losses=1, late_fetches=1),
    ),
    "joins-before-the-high-watermark": Planted(
        joins_before_the_high_watermark,
        (DURABLE, JUSTIFIED, COMMITTED),
        _bounds("a crash and an election", appends=1, crashes=1, elections=1),
    ),
    "never-truncated": Planted(never_truncated, (COMES_TO_REST, EQUAL, COMMITTED), _CRASH),
    "divergence-not-told": Planted(divergence_not_told, (COMES_TO_REST, EQUAL, JUSTIFIED), _CRASH),
    "truncated-to-the-high-watermark": Planted(
        truncated_to_the_high_watermark, (COMMITTED, JUSTIFIED), _bounds("two elections", elections=2)
    ),
    "fetched-before-it-is-durable": Planted(fetched_before_it_is_durable, (JUSTIFIED,), _bounds("no fault", appends=1)),
    "epochs-not-entered": Planted(epochs_not_entered, (COMES_TO_REST, EQUAL, JUSTIFIED), _CRASH),
    "refused-change-stays-under-way": Planted(
        refused_change_stays_under_way,
        (COMES_TO_REST,),
        _bounds("a crash, a broker that is fenced without knowing", appends=1, crashes=1, fences=1),
    ),
    "lost-answer-not-repeated": Planted(
        lost_answer_not_repeated, (JUSTIFIED, COMMITTED), _bounds("a lost answer", appends=1, crashes=1, lost_answers=1)
    ),
}
