"""A broker in a thread of the test: what it takes, what it tells, how it ends."""

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError
from eosin.lab.lab_thread import LabThread, end_idle_threads

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 3, "payments": 1}) as started:
        yield started


def names() -> set[str]:
    return {each.name for each in threading.enumerate() if each.name.startswith("eosin-lab")}


# Records and topics


def test_values_are_read_by_partition_and_offset(broker: Broker) -> None:
    broker.topic("places").create(2)
    assert broker.produce("places", "b", "c", partition=1) == [0, 1]
    assert broker.produce("places", b"a", partition=0) == [0]
    assert broker.topic("places").values() == [b"a", b"b", b"c"]
    assert broker.topic("places").values(partition=1) == [b"b", b"c"]


def test_a_record_keeps_its_key_its_headers_and_its_time(broker: Broker) -> None:
    broker.produce("whole", None, key="k", headers={"h": "1", "none": None}, timestamp=1_700_000_000_000)
    (record,) = broker.topic("whole").records()
    assert (record.key, record.value, record.timestamp) == (b"k", None, 1_700_000_000_000)
    assert record.headers == (("h", b"1"), ("none", None))


def test_equal_keys_meet_in_one_partition(broker: Broker) -> None:
    broker.topic("keyed").create(8)
    broker.produce("keyed", "1", key="same")
    broker.produce("keyed", "2", key="same")
    assert len({each.partition for each in broker.topic("keyed").records()}) == 1


def test_many_records_are_read_to_their_end(broker: Broker) -> None:
    big = [bytes([number]) * 10_000 for number in range(100)]
    broker.produce("many", *big)
    broker.produce("many", *big)
    assert broker.topic("many").values() == big + big


def test_a_topic_has_the_configs_that_it_was_created_with(broker: Broker) -> None:
    with pytest.raises(LabError, match=r"max.message.bytes"):
        broker.topic("configured").create(max_message_bytes="many")
    broker.topic("configured").create(2, cleanup_policy="compact", max_message_bytes=1000)
    assert broker.topic("configured").partitions == 2
    with pytest.raises(LabError, match=r"RECORD_TOO_LARGE|MESSAGE_TOO_LARGE"):
        broker.produce("configured", "x" * 2000, key="k")


def test_a_topic_that_is_deleted_and_created_again_is_empty(broker: Broker) -> None:
    topic = broker.topic("again").create()
    broker.produce("again", "old")
    topic.delete()
    assert "again" not in broker.topics()
    topic.create()
    assert topic.values() == []


def test_a_topic_that_is_not_there_is_named_with_the_nearest_one(broker: Broker) -> None:
    with pytest.raises(LabError, match=r'there is no topic "ordres"; did you mean orders\?'):
        broker.topic("ordres").values()
    with pytest.raises(LabError, match="orders has the partitions 0 to 2, and no 3"):
        broker.topic("orders").high_watermark(3)


def test_an_unknown_isolation_is_refused(broker: Broker) -> None:
    with pytest.raises(LabError, match="isolation is read_committed or read_uncommitted, not 'committed'"):
        broker.topic("orders").values(isolation="committed")


def test_consume_waits_for_records_and_says_why_there_are_none(broker: Broker) -> None:
    broker.topic("awaited").create()
    threading.Timer(0.05, broker.produce, ("awaited", "late")).start()
    assert [each.value for each in broker.consume("awaited", timeout=HANG_S)] == [b"late"]
    with pytest.raises(LabError, match="awaited has 1 of 2 records after 0 s: "):
        broker.consume("awaited", 2, timeout=0)


# Transactions


def test_the_transactions_of_an_id_are_told_as_the_coordinator_decided_them(broker: Broker) -> None:
    transactions, topic = broker.transactions("outcomes"), broker.topic("decided")
    assert (transactions.state, transactions.epoch, transactions.deadline, transactions.outcomes) == (
        None,
        None,
        None,
        [],
    )
    broker.produce("decided", "first", transactional_id="outcomes")
    broker.produce("decided", "second", transactional_id="outcomes", commit=False)
    assert transactions.outcomes == ["commit", "open"]
    assert transactions.state == "Ongoing"
    assert [str(each) for each in transactions.partitions] == ["decided-0"]
    assert transactions.deadline is not None
    assert topic.values() == [b"first"]
    assert topic.values(isolation="read_uncommitted") == [b"first", b"second"]
    (held,) = topic.open()
    assert (held.producer_id, held.first_offset) == (transactions.producer_id, topic.last_stable_offset())
    transactions.abort()
    assert transactions.outcomes == ["commit", "fenced"]
    assert topic.values() == [b"first"]
    assert [each.first_offset for each in topic.aborted()] == [held.first_offset]
    assert topic.open() == []
    assert [each.marker for each in topic.batches()] == [None, "commit", None, "abort"]
    assert topic.high_watermark() == topic.last_stable_offset() == 4
    assert [each.what for each in transactions.timeline].count("begin") == 2


def test_open_transactions_fail_an_assertion_with_their_explanation(broker: Broker) -> None:
    broker.assert_no_open_transactions()
    broker.produce("payments", "half", transactional_id="half-done", commit=False)
    assert [each.transactional_id for each in broker.open_transactions()] == ["half-done"]
    with pytest.raises(AssertionError, match=r"(?s)a transaction is still open:.half-done has a transaction open"):
        broker.assert_no_open_transactions()
    broker.transactions("half-done").abort()
    broker.assert_no_open_transactions()


def test_an_id_that_is_not_there_cannot_be_aborted(broker: Broker) -> None:
    with pytest.raises(LabError, match='there is no transactional id "nobody"'):
        broker.transactions("nobody").abort()


def test_a_transaction_left_open_needs_an_id(broker: Broker) -> None:
    with pytest.raises(LabError, match="commit=False leaves a transaction open: name its transactional_id"):
        broker.produce("orders", "x", commit=False)


def test_explain_says_why(broker: Broker) -> None:
    broker.produce("explained", "x", transactional_id="explained-id", commit=False)
    assert "explained-id has a transaction open" in broker.explain("explained-id")
    broker.transactions("explained-id").abort()
    assert "was aborted" in broker.explain("explained-id")
    assert "nobody-knows" in broker.explain("nobody-knows")


def test_wait_until_says_what_has_not_happened(broker: Broker) -> None:
    answers = iter([False, False, True])
    broker.wait_until(lambda: next(answers))
    with pytest.raises(AssertionError, match="the sun has not happened within 0 s"):
        broker.wait_until(lambda: False, timeout=0, what="the sun")


# Options


def test_wrong_options_are_refused_in_a_sentence_before_anything_starts() -> None:
    before = names()
    with pytest.raises(LabError, match=r"did you mean log.segment.bytes"):
        Broker(settings={"log.segment.byte": 1})
    with pytest.raises(LabError, match="durability is one of fsync, os, memory, not 'disk'"):
        Broker(durability="disk")
    with pytest.raises(LabError, match="topics are a list"):
        Broker(topics="orders")
    with pytest.raises(LabError, match="topic orders has 1 partition or more, not 0"):
        Broker(topics={"orders": 0})
    assert names() == before


def test_a_port_that_is_taken_is_refused_and_the_thread_is_kept_for_the_next(broker: Broker) -> None:
    port = int(broker.bootstrap.rpartition(":")[2])
    for _ in range(3):
        with pytest.raises(LabError, match=str(port)):
            Broker(port=port)
    with Broker(topics=["x"]) as other:
        assert other.topics() == ["x"]


def test_a_topic_that_cannot_be_is_refused_in_a_sentence() -> None:
    with pytest.raises(LabError, match="cannot make the topic no/slash:1: Topic name 'no/slash' is illegal"):
        Broker(topics=["no/slash"])


def test_settings_are_the_brokers_own() -> None:
    with Broker(settings={"auto.create.topics.enable": False, "num.partitions": 4}) as broker:
        assert "auto.create.topics.enable" not in broker.explain("x")
        broker.produce("made", "x")
        assert broker.topic("made").partitions == 1


def test_files_in_a_directory_that_a_test_names_stay(tmp_path: Path) -> None:
    with Broker(disk=tmp_path / "data", topics=["kept"]) as broker:
        broker.produce("kept", "x", transactional_id="t")
    assert list(tmp_path.rglob("kept-0/*.log"))


def test_a_place_for_files_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"cannot use .*file: File exists"):
        Broker(disk=tmp_path / "file")
    with pytest.raises(LabError, match="is not empty, and no data directory of a broker for tests: name a new one"):
        Broker(disk=tmp_path)


def test_a_disk_and_a_durability_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(LabError, match="keeps nothing, so leave out durability"):
        Broker(disk="memory", durability="fsync")
    with pytest.raises(LabError, match='disk is "lab", "memory" or the'):
        Broker(disk="labs")


# Life


USED_UP = """
import resource
from eosin.testing import Broker, LabError, ProcessBroker

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
brokers = []
for kind in (Broker, ProcessBroker):
    try:
        while True:
            brokers.append(kind())
    except LabError as refused:
        print(refused, flush=True)
kept = [open("/dev/null") for _ in range(3)]
brokers[0].produce("orders", "x")
for each in brokers:
    each.close()
with Broker(topics=["orders"]) as broker:
    print(len(brokers) > 3, broker.topics())
"""


def test_a_process_that_has_used_up_its_descriptors_goes_on_with_the_brokers_that_it_has() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USED_UP], capture_output=True, text=True, timeout=HANG_S
    )
    said = "no file descriptors for one more broker: Too many open files; close some, or raise the limit (ulimit -n)"
    assert (done.returncode, done.stdout.splitlines()) == (0, [said, said, "True ['orders']"]), done.stderr


MANY = """
import gc, os, threading
from eosin.testing import Broker

def left(lives):
    for _ in range(lives):
        with Broker(topics=["orders"]) as broker:
            broker.produce("orders", "x", transactional_id="t")
    gc.collect()
    pages = int(open("/proc/self/statm").read().split()[1])
    return threading.active_count(), len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE")

left(200)  # what a process keeps from its first ones
before, after = left(1), left(1000)
print(after[0] - before[0], after[1] - before[1], after[2] - before[2])
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of descriptors and memory")
def test_a_thousand_brokers_leave_no_thread_no_descriptor_and_no_mebibyte_behind() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, timeout=HANG_S)
    threads, descriptors, size = map(int, done.stdout.split())
    assert (threads, descriptors) == (0, 0)
    assert size < 2**20, f"{size} bytes"


@pytest.mark.parametrize("interrupted", ["start", "close"])
def test_ctrl_c_while_a_broker_starts_or_ends_leaves_nothing_behind(
    interrupted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_idle_threads()
    before, submit = names(), LabThread.submit

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def submit_and_interrupt(thread: LabThread, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        future = submit(thread, work)
        monkeypatch.undo()
        future.result = interrupt  # type: ignore[assignment]
        return future

    run = Broker(durability="os").close if interrupted == "close" else partial(Broker, durability="os")
    monkeypatch.setattr(LabThread, "submit", submit_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        run()
    with Broker() as another:
        assert another.topics() == []
        assert len(names() - before) == 1, "the thread serves the next one"
    end_idle_threads()
    assert names() == before


def test_a_thread_that_the_system_does_not_give_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(LabError, match="no thread for one more broker: can't start new thread"):
        LabThread("eosin-lab-none")


def test_a_thread_is_kept_from_one_broker_to_the_next_and_ends_when_asked() -> None:
    end_idle_threads()
    before = names()
    used = set()
    for _ in range(3):
        with Broker():
            used |= names() - before
    assert len(used) == 1
    with Broker(), Broker():
        assert len(names() - before) == 2
    end_idle_threads()
    assert names() == before


def test_a_closed_broker_says_so_and_closes_again_in_silence() -> None:
    broker = Broker()
    host, _, port = broker.bootstrap.rpartition(":")
    broker.close()
    broker.close()
    with pytest.raises(LabError, match="this Broker is closed"):
        broker.topics()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12, since there are threads
def test_a_forked_child_is_told_whose_the_broker_is(broker: Broker) -> None:
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            broker.topics()
        except LabError as error:
            os.write(telling, str(error).encode())
        broker.close()
        os._exit(0)
    os.close(telling)
    os.waitpid(child, 0)
    said = os.read(told, 1000).decode()
    os.close(told)
    assert said == f"this Broker belongs to process {os.getpid()}: children connect to its bootstrap address"
    assert "orders" in broker.topics()


def test_the_brokers_thread_does_not_wait_for_itself(broker: Broker) -> None:
    async def from_inside() -> str:
        with pytest.raises(LabError, match="a broker's own thread cannot wait for the broker"):
            broker.topics()
        return "seen"

    assert broker._held.thread.call(from_inside()) == "seen"


def test_warnings_of_a_broker_are_kept_for_its_report(broker: Broker) -> None:
    async def warn() -> None:
        logging.getLogger("eosin.lab.test").warning("something is %s", "wrong")

    broker._held.thread.call(warn())
    logging.getLogger("eosin.lab.test").warning("said by another thread")
    assert broker.warnings == ["something is wrong"]
