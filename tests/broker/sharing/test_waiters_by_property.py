"""The fetches that wait for a share partition (share-partitions.md 1.8): one record wakes one of them, in the order of
coming, and no wake-up is lost, whatever those do that were woken."""

import random
from collections import deque

import pytest

from eosin.broker.sharing.rules.waiters import NEVER_LOOKED, ShareWaiters


class Fetch:
    """A fetch that takes up to `most` records, or none: it has no room, or its client is gone."""

    def __init__(self, number: int, most: int) -> None:
        self.number = number
        self.most = most
        self.is_woken = False
        self.wakes = 0

    def wake(self) -> None:
        self.is_woken = True
        self.wakes += 1


class Partition:
    """Records, and fetches that look, wait, and take what they may, in an order that chance decides."""

    def __init__(self, seed: int) -> None:
        self.chosen = random.Random(seed)
        self.waiters = ShareWaiters()
        self.available = 0
        self.wakes = 0
        self.changes = 0
        self.waiting: list[Fetch] = []
        """In the order of coming."""
        self.fetching: deque[Fetch] = deque()
        """The fetch that reads now: it holds up others."""
        self.made = 0

    def pass_on(self) -> None:
        if self.available and not self.fetching:
            self.wakes += self.waiters.next()

    def grows(self, records: int) -> None:
        self.available += records
        self.changes += 1
        self.waiters.change_count += 1
        self.pass_on()

    def comes(self, most: int) -> None:
        self.made += 1
        self.looks(Fetch(self.made, most))

    def looks(self, fetch: Fetch) -> None:
        """Take something, begin to read, or wait."""
        looked = NEVER_LOOKED if self.fetching else self.waiters.change_count
        if self.available and not self.fetching and fetch.most:
            self.fetching.append(fetch)
            return
        fetch.is_woken = False
        self.waiting.append(fetch)
        self.waiters.wait(fetch.wake, looked)
        self.pass_on()

    def read_ends(self) -> None:
        """It has what it may have, and its response goes out."""
        if self.fetching:
            fetch = self.fetching.popleft()
            self.available -= min(self.available, fetch.most)
            self.pass_on()

    def leaves(self, fetch: Fetch) -> None:
        self.waiting.remove(fetch)
        self.waiters.leave(fetch.wake)

    def woken_one_goes_on(self) -> None:
        """It looks again, or is gone, as its time was over in that moment."""
        for fetch in self.waiting:
            if fetch.is_woken:
                self.leaves(fetch)
                if self.chosen.random() < 0.8:
                    self.looks(fetch)
                self.pass_on()
                return

    def woken_one_goes_on_for_sure(self) -> None:
        fetch = next((each for each in self.waiting if each.is_woken), None)
        if fetch is not None:
            self.leaves(fetch)
            self.looks(fetch)
            self.pass_on()

    def gives_up(self) -> None:
        if self.waiting:
            self.leaves(self.chosen.choice(self.waiting))
            self.pass_on()

    def no_wake_up_is_lost(self) -> None:
        """If there is something, and nobody reads or was woken, nobody waits who could take it."""
        if self.available and not self.fetching and not any(each.is_woken for each in self.waiting):
            assert not [each for each in self.waiting if each.most]

    def one_is_awake(self) -> None:
        assert sum(each.is_woken for each in self.waiting) <= 1


@pytest.mark.parametrize("seed", range(100))
def test_no_wake_up_is_lost_and_one_is_awake_at_a_time(seed: int) -> None:
    partition = Partition(seed)
    chosen = partition.chosen
    for _ in range(400):
        match chosen.randrange(6):
            case 0:
                partition.grows(chosen.randint(1, 4))
            case 1 | 2:
                partition.comes(chosen.choice((0, 1, 1, 2, 500)))
            case 3:
                partition.read_ends()
            case 4:
                partition.woken_one_goes_on()
            case _:
                partition.gives_up()
        partition.no_wake_up_is_lost()
        partition.one_is_awake()
    assert partition.wakes


def test_one_record_wakes_one_of_a_thousand_and_the_next_one_the_next() -> None:
    partition = Partition(0)
    for _ in range(1000):
        partition.comes(1)
    for expected in range(1, 4):
        partition.grows(1)
        assert [each.number for each in partition.waiting if each.is_woken] == [expected]
        partition.woken_one_goes_on_for_sure()
        partition.read_ends()
        assert partition.wakes == expected
    partition.grows(3)
    for _ in range(3):
        partition.woken_one_goes_on_for_sure()
        partition.read_ends()
    assert partition.wakes == 6
    assert partition.available == 0


def test_those_who_cannot_take_what_there_is_are_woken_once_for_it() -> None:
    partition = Partition(0)
    for _ in range(10):
        partition.comes(0)
    partition.grows(1)
    for _ in range(30):
        partition.woken_one_goes_on_for_sure()
    assert partition.wakes == 10
    partition.comes(1)
    assert partition.fetching


def test_patient_ones_that_could_not_look_are_woken_one_by_one_and_once() -> None:
    waiters, fetches = ShareWaiters(), [Fetch(number, 1) for number in range(4)]
    for fetch in fetches:
        waiters.wait(fetch.wake, 0 if fetch.number == 0 else NEVER_LOOKED, is_patient=True)
    waiters.leave(fetches[2].wake)
    for expected in ([], [1], [1, 3], [1, 3], [1, 3]):
        assert [each.number for each in fetches if each.is_woken] == expected
        waiters.next_unlooked()
    waiters.all_patient()
    assert [each.wakes for each in fetches] == [1, 2, 0, 2]
