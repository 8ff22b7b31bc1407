"""Where a follower cuts its log, against histories of three replicas that lead in turns (cluster.md 4.8)."""

import random

import pytest

from eosin.cluster.replication.rules.truncation import Divergence, LogEpochs, Truncation, truncation_for
from eosin.storage.log.leader_epochs import LeaderEpochs


def log(*entries: tuple[int, int], end: int, high_watermark: int = 0) -> LogEpochs:
    return LogEpochs(entries, end, high_watermark)


def test_an_epoch_that_both_know_is_cut_where_the_shorter_one_ends() -> None:
    ours = log((1, 0), (2, 10), end=20)
    assert truncation_for(Divergence(2, 15), ours) == Truncation(15, is_final=True)
    assert truncation_for(Divergence(1, 12), ours) == Truncation(10, is_final=True)
    assert truncation_for(Divergence(1, 7), ours) == Truncation(7, is_final=True)


def test_an_epoch_that_only_the_leader_knows_cuts_ours_above_the_one_below_it_and_asks_again() -> None:
    ours = log((1, 0), (3, 10), (5, 14), end=20)
    assert truncation_for(Divergence(4, 30), ours) == Truncation(14, is_final=False)
    assert truncation_for(Divergence(2, 30), ours) == Truncation(10, is_final=False)


def test_an_epoch_below_all_of_ours_leaves_nothing_behind_the_start_of_our_first_one() -> None:
    ours = log((5, 100), end=120)
    assert truncation_for(Divergence(3, 80), ours) == Truncation(80, is_final=True)
    assert truncation_for(Divergence(3, 110), ours) == Truncation(100, is_final=True)


def test_a_leader_without_epochs_is_followed_up_to_the_end_that_it_tells() -> None:
    ours = log((5, 0), end=20, high_watermark=4)
    assert truncation_for(Divergence(-1, 12), ours) == Truncation(12, is_final=True)
    assert truncation_for(Divergence(-1, 40), ours) == Truncation(20, is_final=True)


def test_a_leader_that_tells_no_end_leaves_what_is_committed() -> None:
    assert truncation_for(Divergence(3, -1), log((5, 0), end=20, high_watermark=4)) == Truncation(4, is_final=True)


def test_a_log_without_epochs_is_cut_to_the_end_that_the_leader_tells() -> None:
    assert truncation_for(Divergence(3, 12), log(end=20)) == Truncation(12, is_final=True)


def test_an_epoch_without_records_goes_though_no_record_does() -> None:
    ours = log((1, 0), (4, 10), end=10)
    assert truncation_for(Divergence(1, 10), ours) == Truncation(10, is_final=True)


class Replica:
    """Records by offset, each as (its epoch, which record of the epoch), and the epochs that the log entered."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int]] = []
        self.epochs = LeaderEpochs()

    def lead(self, epoch: int, records: int) -> None:
        self.epochs.assign(epoch, len(self.records))
        self.records += [(epoch, index) for index in range(records)]

    def copy(self, leader: "Replica", upto: int) -> None:
        """What following without any mistake leads to."""
        self.cut(common_prefix(self, leader))
        for record in leader.records[len(self.records) : upto]:
            self.epochs.assign(record[0], len(self.records))
            self.records.append(record)

    def cut(self, offset: int) -> None:
        del self.records[offset:]
        self.epochs.truncate_from_end(offset)

    def divergence(self, *, last_fetched_epoch: int, offset: int) -> Divergence | None:
        """What this leader answers to a follower at `offset` (storage.md 17)."""
        epoch, end = self.epochs.end_offset_for(last_fetched_epoch, len(self.records))
        if last_fetched_epoch >= 0 and (epoch < last_fetched_epoch or end < offset):
            return Divergence(epoch, end)
        return None

    def as_epochs(self) -> LogEpochs:
        return LogEpochs(self.epochs.entries, len(self.records), 0)


def common_prefix(one: Replica, other: Replica) -> int:
    pairs = zip(one.records, other.records, strict=False)
    shorter = min(len(one.records), len(other.records))
    return next((offset for offset, (ours, theirs) in enumerate(pairs) if ours != theirs), shorter)


def history(seed: int) -> list[Replica]:
    """Three replicas after elections of anybody, clean or not, each followed by the others for a while or not."""
    chance = random.Random(seed)
    replicas = [Replica(), Replica(), Replica()]
    for epoch in range(chance.randrange(1, 9)):
        leader = chance.choice(replicas)
        leader.lead(epoch, chance.randrange(4))
        for follower in replicas:
            if follower is not leader and chance.random() < 0.5:
                follower.copy(leader, chance.randrange(len(leader.records) + 1))
    return replicas


@pytest.mark.parametrize("seeds", [range(first, first + 500) for first in range(0, 3000, 500)])
def test_a_follower_keeps_exactly_what_it_shares_with_the_leader(seeds: range) -> None:
    for seed in seeds:
        leader, follower, _ = history(seed)
        leader.lead(100, seed % 3)
        shared = common_prefix(leader, follower)
        for _ in range(len(follower.epochs.entries) + 1):
            offset, epoch = len(follower.records), follower.epochs.latest
            divergence = leader.divergence(last_fetched_epoch=epoch, offset=offset)
            if divergence is None:
                break
            follower.cut(truncation_for(divergence, follower.as_epochs()).offset)
        assert divergence is None, f"seed {seed}: it asks for ever"
        assert follower.records == leader.records[:shared], f"seed {seed}"
