"""The campaign of kills in real time: it tells a machine that is slow from a query that stands still."""

from pathlib import Path

import pytest
from machine_time import MachineTime, counted_s
from manual_clock import ManualClock
from standstill import of_the_query


@pytest.mark.parametrize(
    ("ran_s", "waited_s", "counts"),
    [
        pytest.param(0, 0, 10, id="nobody asked for a processor: all of it"),
        pytest.param(4, 0, 10, id="all that was asked for was given"),
        pytest.param(5, 5, 5, id="half was given"),
        pytest.param(1, 1, 9, id="half was given, of a little"),
        pytest.param(0, 30, 0, id="nothing was given"),
        pytest.param(20, 20, 5, id="many threads got half"),
    ],
)
def test_an_interval_counts_as_far_as_its_threads_got_a_processor(ran_s: float, waited_s: float, counts: float) -> None:
    assert counted_s(10, ran_s, waited_s) == counts


class Threads:
    """A `/proc` with two processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def are(self, pid: int, thread: int, ran_s: float, waited_s: float) -> None:
        place = self.folder / str(pid) / "task" / str(thread)
        place.mkdir(parents=True, exist_ok=True)
        (place / "schedstat").write_text(f"{ran_s * 1e9:.0f} {waited_s * 1e9:.0f} 3\n")


def test_a_wait_lasts_longer_on_a_machine_that_others_use_and_no_longer_for_a_program_that_sleeps(
    tmp_path: Path,
) -> None:
    threads, clock = Threads(tmp_path), ManualClock()
    threads.are(1, 1, ran_s=50, waited_s=50)  # before the wait
    members = [1]
    taken = MachineTime(lambda: members, proc=tmp_path, clock=lambda: clock.elapsed_ms() / 1000)
    clock.advance(10_000)
    threads.are(1, 1, ran_s=51, waited_s=59)
    assert taken.elapsed_s() == pytest.approx(1)
    clock.advance(10_000)  # it sleeps
    assert taken.elapsed_s() == pytest.approx(11)
    members.append(2)  # an executor, whose threads begin at nothing
    threads.are(2, 7, ran_s=5, waited_s=5)
    clock.advance(10_000)
    assert taken.elapsed_s() == pytest.approx(16)
    members.clear()
    clock.advance(10_000)
    assert taken.elapsed_s() == pytest.approx(26)
    assert taken.ran_s == pytest.approx(6)


def test_of_a_dump_of_threads_those_are_told_that_have_to_do_with_the_query() -> None:
    dump = """2026-11-29 18:00:00
Full thread dump OpenJDK

"main" #1 prio=5
   java.lang.Thread.State: WAITING
	at java.lang.Object.wait

"eosin commits orders-0" #80 daemon prio=5
   java.lang.Thread.State: TIMED_WAITING
	at eosin.realtime.TxnWriter$Partition.run(TxnWriter.java:430)

"Executor task launch worker for task 0.0" #70 daemon prio=5
   java.lang.Thread.State: RUNNABLE
	at org.apache.kafka.clients.consumer.KafkaConsumer.poll
"""
    assert [each.split('"')[1] for each in of_the_query(dump)] == [
        "eosin commits orders-0",
        "Executor task launch worker for task 0.0",
    ]
