"""Small objects come from malloc while large requests are at work, and nothing else changes."""

import subprocess
import sys

import pytest

from eosin.runtime.small_objects import SmallObjects


class Interpreter:
    """Counts blocks as CPython does: one from malloc is counted when it goes, and not when it comes."""

    def __init__(self) -> None:
        self.counted = 1000
        self.from_malloc: list[bool] = []
        self.objects = SmallObjects(lambda: self.counted)
        self.objects._switch = self.from_malloc.append


def test_the_first_large_request_begins_it_and_the_last_one_ends_it() -> None:
    interpreter = Interpreter()
    with interpreter.objects.from_malloc():
        with interpreter.objects.from_malloc():
            assert interpreter.from_malloc == [True]
        assert interpreter.from_malloc == [True]
    assert interpreter.from_malloc == [True, False]


def test_a_request_that_fails_ends_it() -> None:
    interpreter = Interpreter()
    with pytest.raises(ValueError, match="malformed"), interpreter.objects.from_malloc():
        raise ValueError("malformed")
    assert interpreter.from_malloc == [True, False]


def test_objects_that_came_from_malloc_are_not_missing_from_what_is_allocated() -> None:
    interpreter = Interpreter()
    for _ in range(3):
        with interpreter.objects.from_malloc():
            assert interpreter.objects.allocated_blocks is None
            interpreter.counted -= 500
        assert interpreter.objects.allocated_blocks == 1000
    interpreter.counted += 70
    assert interpreter.objects.allocated_blocks == 1070


def test_what_is_let_go_of_later_makes_it_no_less_than_there_was_at_first() -> None:
    interpreter = Interpreter()
    interpreter.objects.enable()
    with interpreter.objects.from_malloc():
        pass
    interpreter.counted -= 500
    assert interpreter.objects.allocated_blocks == 1000
    interpreter.counted += 70
    assert interpreter.objects.allocated_blocks == 1070


def test_nothing_happens_where_nobody_has_enabled_it() -> None:
    objects = SmallObjects()
    with objects.from_malloc():
        pass
    assert objects._switch is None


SMALL = """
import ctypes, gc, sys
from eosin.runtime.small_objects import SmallObjects

def arenas_left(objects):
    kept = []
    with objects.from_malloc():
        for number in range(200_000):  # a large request, and what others keep meanwhile
            large.append((number, str(number)))
            if number % 1000 == 0:
                kept.append(float(number))
        large.clear()
    return kept

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

large = []
objects = SmallObjects()
if sys.argv[1] == "enabled":
    objects.enable()
before = resident()
kept = arenas_left(objects)
ctypes.CDLL(None).malloc_trim(0)
print(resident() - before, sum(kept) == 19_900_000, objects.allocated_blocks > 0)
again = [object() for _ in range(1000)]  # and the interpreter goes on
assert len(set(map(id, again))) == 1000
"""


NAMES = """
import ctypes, sys
from concurrent.futures import ThreadPoolExecutor
from eosin.runtime.small_objects import SmallObjects, keep_one_heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

def decode(frame):
    return [bytes(frame[start : start + 30_000]) for start in range(0, len(frame), 30_000)]

objects = SmallObjects()
if sys.argv[1] == "enabled":
    objects.enable()
    keep_one_heap()
before = resident()
with ThreadPoolExecutor(2) as threads:
    for _ in range(4):
        with objects.from_malloc():
            names = list(threads.map(decode, [memoryview(bytearray(16 << 20))] * 2))
            del names
    ctypes.CDLL(None).malloc_trim(0)
    print(resident() - before, True, objects.allocated_blocks > 0)
"""


def left(how: str, program: str = SMALL) -> int:
    """MiB that a process keeps of a large request."""
    told = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, check=True)
    grown, has_all, is_counted = told.stdout.split()
    assert (has_all, is_counted) == ("True", "True")
    return int(grown)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing changes")
def test_a_few_objects_that_stay_keep_no_memory_of_a_large_request() -> None:
    assert left("enabled") <= 6
    assert left("as before") >= 12


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing changes")
def test_a_thread_that_has_decoded_long_names_keeps_no_memory_for_the_next_ones() -> None:
    assert left("enabled", NAMES) <= 6
    assert left("as before", NAMES) >= 12
