"""Memory that clients no longer fill goes back to the system, and a broker that keeps what it has asks for nothing."""

import ctypes
import os
import subprocess
import sys

import pytest

from eosin.node.freed_memory import MOST_ROUNDS, STEP_BYTES, FreedMemory

MIB = 1 << 20


class System:
    """A process whose allocator keeps what was freed until it is asked. What its start has left is
    given back."""

    def __init__(self) -> None:
        self.used, self.kept, self.asked = 100 * MIB, MIB, 0
        self.memory = FreedMemory(lambda: self.used + self.kept, self.give_back)
        self.look()

    def give_back(self) -> None:
        self.asked += 1
        self.kept = 0

    def look(self, times: int = 1) -> int:
        """Look so often; how often the allocator was asked then."""
        before = self.asked
        for _ in range(times):
            if self.memory.is_due():
                self.memory.trim()
        return self.asked - before


def test_what_the_start_has_left_goes_back_however_little_it_is() -> None:
    system = System()
    assert (system.asked, system.kept) == (1, 0)


def test_a_process_that_stays_as_it_is_asks_for_nothing() -> None:
    system = System()
    assert system.look(1000) == 0
    system.used += STEP_BYTES
    assert system.look(1000) == 0, "so little is no matter"


def test_what_many_clients_have_left_goes_back() -> None:
    system = System()
    system.used += 200 * MIB
    system.look(3)
    system.used, system.kept = 100 * MIB, 200 * MIB
    system.look(MOST_ROUNDS + 1)
    assert system.kept == 0
    assert system.look(1000) == 0, "there is no more to be had"


def test_what_comes_and_goes_between_two_looks_goes_back_at_the_next() -> None:
    system = System()
    system.kept = 60 * MIB
    assert system.look() == 1
    assert system.kept == 0


def test_a_broker_that_has_grown_for_good_asks_less_often() -> None:
    system = System()
    system.used += 500 * MIB
    system.look(10)
    assert system.look(100 * (MOST_ROUNDS + 1)) == 100


@pytest.mark.parametrize("used", [600 * MIB, 400 * MIB])
def test_a_change_brings_the_next_question_at_once(used: int) -> None:
    system = System()
    system.used += 500 * MIB
    system.look(2)
    assert system.look() == 1
    assert system.look() == 0
    system.used, system.kept = used, 60 * MIB
    assert system.look() == 1


PROGRAM = """
import asyncio
from eosin.node.freed_memory import FreedMemory

memory = FreedMemory.of_this_process()
before = memory.resident_bytes()
blocks = [b"x" * 60_000 for _ in range(2000)]
at_its_most = memory.resident_bytes()
del blocks[:-1]
asyncio.run(memory.check())
print(at_its_most - before, at_its_most - memory.resident_bytes(), len(blocks[0]))
"""


@pytest.mark.process
def test_the_allocator_of_this_system_gives_back_what_lies_between_blocks_in_use() -> None:
    if FreedMemory.of_this_process() is None or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("the C library of this system has no malloc_trim")
    # In a process of its own: this one may have room of earlier tests for the blocks.
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    grown, given_back, left = map(int, told.split())
    assert grown > 100 * MIB
    assert given_back > 100 * MIB
    assert left == 60_000


def test_resident_memory_is_that_of_the_system() -> None:
    memory = FreedMemory.of_this_process()
    if memory is not None:
        assert (
            os.sysconf("SC_PAGE_SIZE")
            < memory.resident_bytes()
            < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        )
