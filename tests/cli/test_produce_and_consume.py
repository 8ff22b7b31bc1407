"""`eosin produce` and `eosin consume` against Eosin and Apache Kafka."""

import base64
import errno
import signal
import socket
import subprocess
from pathlib import Path
from typing import IO

import pytest
from broker_process import BrokerProcess
from local_broker import ThreadedBroker
from shell import PROGRAM, Shell
from waiting import HANG_S, wait_until
from wire import unique

from eosin.cli.records import standard_input
from eosin.coordinator.transactions.ports import MarkerTarget, MarkerTargets
from eosin.network.request_hooks import ObservedRequest, RequestHooks
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.process


def lines_of(stream: IO[bytes] | None, count: int) -> list[bytes]:
    """So many lines of a command that goes on."""
    assert stream is not None
    return [stream.readline() for _ in range(count)]


def feed(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Its exit code, and what it said."""
    _, err = process.communicate(timeout=HANG_S)
    return process.returncode, err.decode()


@pytest.mark.smoke
def test_lines_are_records_and_records_are_lines(shell: Shell) -> None:
    topic = shell.topic()
    given = b"one book\n\n\xff\x00 no text\nlast line without a break"
    assert shell.ok("produce", topic, given=given).out == b""
    assert shell.ok("consume", topic).out == given + b"\n"


def test_keys_headers_and_partitions_are_what_was_asked_for(shell: Shell) -> None:
    topic = shell.topic(3)
    shell.ok("produce", topic, "--key-separator", ":", "--header", "from=here", given=b"a:1\nb:2\na:3\n")
    shell.ok("produce", topic, "--partition", "2", "--null", "-", "--key", "k", given=b"-\n")
    rows = shell.ok("consume", topic, "--json").rows
    by_value = {row["value"]: row for row in rows}
    assert by_value["1"]["partition"] == by_value["3"]["partition"]
    assert by_value["1"]["headers"] == [["from", "here"]]
    assert (by_value[None]["key"], by_value[None]["partition"]) == ("k", 2)
    shown = shell.ok("consume", topic, "--partition", "2", "--from", "-1", "--show", "partition,key").lines
    assert shown == ["2\tk\tnull"]


def test_json_carries_everything_from_topic_to_topic(shell: Shell) -> None:
    topic, copy = shell.topic(2), shell.topic(2)
    raw = base64.b64encode(b"\xff\x00").decode()
    given = (
        b'{"key":{"base64":"%b"},"value":null,"headers":[["h","v"],["n",null]],"partition":1,"timestamp":1700000000000}\n'
        b'{"value":{"nested":true}}\n' % raw.encode()
    )
    shell.ok("produce", topic, "--json", given=given)
    out = shell.ok("consume", topic, "--json").out
    shell.ok("produce", copy, "--json", given=out)
    first, again = (
        sorted(shell.ok("consume", name, "--json").rows, key=lambda row: row["partition"]) for name in (topic, copy)
    )
    assert [{**row, "topic": topic} for row in again] == first
    assert {row["value"] for row in first} == {None, '{"nested":true}'}


@pytest.mark.smoke
def test_the_input_is_one_transaction(shell: Shell) -> None:
    topic = shell.topic(2)
    given = b"".join(b"%d\n" % number for number in range(1000))
    shell.ok("produce", topic, "--transactional-id", unique("tx"), given=given)
    assert sorted(shell.ok("consume", topic).lines) == sorted(given.decode().split())
    controls = [row for row in shell.ok("consume", topic, "--json", "--control").rows if "control" in row]
    assert {row["control"] for row in controls} == {"COMMIT"}
    assert len({row["partition"] for row in controls}) == len(controls)


def test_the_input_is_a_transaction_for_each_batch(shell: Shell) -> None:
    topic = shell.topic()
    shell.ok("produce", topic, "--transactional-id", unique("tx"), "--batch", "3", given=b"1\n2\n3\n4\n5\n6\n7\n")
    rows = shell.ok("consume", topic, "--json", "--control").rows
    assert [row.get("value", row.get("control")) for row in rows] == [
        *("1", "2", "3", "COMMIT", "4", "5", "6", "COMMIT", "7", "COMMIT")
    ]


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_transaction_is_aborted_and_said(shell: Shell, by: signal.Signals) -> None:
    topic = shell.topic()
    process = shell.start("produce", topic, "--transactional-id", unique("tx"), "--batch", "2")
    feed(process, b"1\n2\n3\n")
    wait_until(lambda: b"3" in shell.ok("consume", topic, "--isolation", "read_uncommitted").out)
    process.send_signal(by)
    code, said = ended(process)
    assert code == 128 + by
    assert said == "eosin produce: interrupted; 2 records are committed, and the open transaction of 1 was aborted\n"
    assert shell.ok("consume", topic).lines == ["1", "2"]
    shown = shell.ok("consume", topic, "--isolation", "read_uncommitted", "--control", "--json").rows
    assert [row.get("value", row.get("control")) for row in shown] == ["1", "2", "COMMIT", "3", "ABORT"]


def test_a_producer_that_shall_outlive_its_terminal_goes_on_without_it(shell: Shell) -> None:
    topic = shell.topic()
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *PROGRAM]  # as nohup does it
    words = ["produce", topic, "--transactional-id", unique("tx")]
    process = subprocess.Popen([*ignoring, *words], env=shell.environment, stdin=subprocess.PIPE)
    feed(process, b"1\n")
    wait_until(lambda: b"1" in shell.ok("consume", topic, "--isolation", "read_uncommitted").out)
    process.send_signal(signal.SIGHUP)
    feed(process, b"2\n")
    process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert shell.ok("consume", topic).lines == ["1", "2"]


def test_an_interrupted_producer_says_what_it_wrote(shell: Shell) -> None:
    topic = shell.topic()
    process = shell.start("produce", topic)
    feed(process, b"1\n2\nhalf a line")
    wait_until(lambda: len(shell.ok("consume", topic).lines) == 2)
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "eosin produce: interrupted; 2 records are written\n")


def test_a_bad_line_ends_the_command_and_a_transaction_leaves_nothing(shell: Shell) -> None:
    topic = shell.topic()
    given = b'{"value":"1"}\n{"value":"2"}\n{"value":3\n{"value":"4"}\n'
    code, said = shell.refused("produce", topic, "--json", given=given)
    assert (code, said.split(":")[1].strip()) == (2, "line 3 is not JSON")
    assert said.endswith("; 2 records are written")
    assert shell.ok("consume", topic).lines == ["1", "2"]
    code, said = shell.refused("produce", topic, "--json", "--transactional-id", unique("tx"), given=given)
    assert (code, said.split(";")[1].strip()) == (
        2,
        "0 records are committed, and the open transaction of 2 was aborted",
    )
    assert shell.ok("consume", topic).lines == ["1", "2"]


def test_a_huge_line_is_refused_with_its_number(shell: Shell) -> None:
    topic = shell.topic(1, "--config", "max.message.bytes=2000")
    given = b"small\n" + b"x" * 5000 + b"\nafter\n" + b"x" * 6000 + b"\n"
    code, said = shell.refused("produce", topic, given=given)
    assert (code, said) == (
        2,
        f"eosin produce: line 2 makes a batch of 5,070 bytes, and topic {topic!r} takes 2,000 (max.message.bytes);"
        " 1 record is written",
    )
    assert "line 2 makes a batch of 5,071 bytes" in shell.refused("produce", topic, "--key", "k", given=given)[1]
    assert shell.ok("consume", topic).lines == ["small", "small"]


@pytest.mark.parametrize("options", [(), ("--header", "from=here")])
def test_a_record_that_just_fits_is_written_and_one_byte_more_is_refused_before_a_broker_does(
    shell: Shell, options: tuple[str, ...]
) -> None:
    topic = shell.topic(1, "--config", "max.message.bytes=2000")
    code, said = shell.refused("produce", topic, *options, given=b"x" * 3000 + b"\n")
    fits = 3000 - (int(said.split("makes a batch of ")[1].split(" bytes")[0].replace(",", "")) - 2000)
    shell.ok("produce", topic, *options, given=b"x" * fits + b"\n")
    assert shell.ok("consume", topic).lines == ["x" * fits]
    code, said = shell.refused("produce", topic, *options, given=b"x" * (fits + 1) + b"\n")
    assert (code, "makes a batch of 2,001 bytes" in said) == (2, True), said


def test_a_large_record_that_fits_is_written(shell: Shell) -> None:
    topic = shell.topic(1, "--config", "max.message.bytes=4000000")
    given = b"x" * 3_000_000 + b"\n"
    shell.ok("produce", topic, given=given)
    assert shell.ok("consume", topic).out == given


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed(shell: Shell, codec: str) -> None:
    topic = shell.topic()
    given = b"again and again\n" * 100
    shell.ok("produce", topic, "--compression", codec, given=given)
    assert shell.ok("consume", topic).out == given


def test_a_topic_is_made_only_if_asked_for(shell: Shell) -> None:
    topic = unique("unmade")
    assert shell.refused("produce", topic, given=b"1\n") == (
        1,
        f"eosin produce: there is no topic {topic!r}; --create makes it",
    )
    assert shell.refused("consume", topic) == (1, f"eosin consume: there is no topic {topic!r}")
    shell.ok("produce", topic, "--create", given=b"1\n")
    assert shell.ok("consume", topic).lines == ["1"]


def test_reading_begins_where_it_was_asked_to(shell: Shell) -> None:
    topic = shell.topic()
    stamped = b"".join(b'{"value":"%d","timestamp":%d}\n' % (n, 1_700_000_000_000 + n * 1000) for n in range(10))
    shell.ok("produce", topic, "--json", given=stamped)

    def read(*options: str) -> str:
        return "".join(shell.ok("consume", topic, *options).lines)

    assert read("--from", "-3") == "789"
    assert read("--from", "4") == "456789"
    assert read("--from", "4", "--count", "2") == "45"
    assert read("--from", "400") == ""
    assert read("--from", "2023-11-14T22:13:26") == "6789"
    assert read("--from", "1h") == ""
    assert read("--from", "-100") == "0123456789"


def test_following_shows_what_comes_until_it_is_interrupted(shell: Shell) -> None:
    topic = shell.topic(2)
    shell.ok("produce", topic, given=b"before\n")
    process = shell.start("consume", topic, "--follow")
    assert lines_of(process.stdout, 1) == [b"before\n"]
    shell.ok("produce", topic, "--partition", "1", given=b"after\n")
    assert lines_of(process.stdout, 1) == [b"after\n"]
    process.send_signal(signal.SIGINT)
    assert ended(process) == (-signal.SIGINT, "")


def test_a_reader_that_has_gone_ends_the_command_without_a_word(shell: Shell) -> None:
    topic = shell.topic()
    shell.ok("produce", topic, given=b"a line of some length\n" * 20_000)
    with shell.start("consume", topic) as process:
        assert lines_of(process.stdout, 1) == [b"a line of some length\n"]
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(HANG_S) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["produce", "t", "--batch", "5"], "--batch needs --transactional-id"),
        (["produce", "t", "--json", "--key", "k"], "--key is for lines of text, not for --json"),
        (["produce", "t", "--key", "k", "--key-separator", ":"], "give --key or --key-separator, not both"),
        (["produce", "t", "--key-separator", ""], "--key-separator must not be empty"),
        (["produce", "t", "--transactional-id", "x", "--acks", "1"], "a transaction needs --acks all"),
        (["produce", "t", "--partition", "-1"], "must be the number of a partition, not '-1'"),
        (["consume", "t", "--from", "latest"], "--from latest needs --follow: nothing is there yet"),
        (["consume", "t", "--from", "soon"], "must be earliest, latest, an offset"),
        (["consume", "t", "--json", "--show", "key"], "--json shows every field"),
        (["consume", "t", "--json", "--format", "%v"], "--format says all that is written: leave out --json"),
        (["consume", "t", "--format", "%q"], "no letter %q"),
        (["consume"], "the following arguments are required: TOPIC"),
    ],
)
def test_options_that_do_not_fit_are_refused(shell: Shell, arguments: list[str], sentence: str) -> None:
    code, said = shell.refused(*arguments)
    assert (code, sentence in said) == (2, True), said


def test_a_closed_standard_input_or_output_is_one_sentence(shell: Shell) -> None:
    topic = shell.topic()
    for command, stream in (("produce", "<&-"), ("consume", ">&-")):
        program = " ".join((*PROGRAM, command, topic, stream))
        done = subprocess.run(["sh", "-c", program], env=shell.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "is closed" in done.stderr


def test_an_input_that_cannot_be_read_is_one_sentence_and_no_empty_success(shell: Shell, tmp_path: Path) -> None:
    topic = shell.topic()
    for options in ((), ("--transactional-id", topic)):
        program = " ".join((*PROGRAM, "produce", topic, *options, f"0>{tmp_path / 'written-only'}"))
        done = subprocess.run(["sh", "-c", program], env=shell.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("eosin produce: standard input cannot be read: Bad file descriptor")
        assert done.stderr.count("\n") == 1


async def test_an_input_that_fails_in_the_middle_gives_its_whole_lines_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = iter([b"one\ntwo\nthr", OSError(errno.EIO, "Input/output error")])

    def read(descriptor: int, size: int) -> bytes:
        piece = next(pieces)
        if isinstance(piece, OSError):
            raise piece
        return piece

    monkeypatch.setattr(standard_input.os, "read", read)
    source = standard_input.StandardInput(-1)
    lines = await source.lines()
    while len(lines) < 2:
        lines += await source.lines()
    assert lines == [b"one", b"two"]
    with pytest.raises(standard_input.UnreadableInput, match="Input/output error"):
        await source.lines()


# A broker in trouble


def test_a_broker_that_is_restarted_in_the_middle_loses_and_repeats_nothing(eosin: BrokerProcess, own: Shell) -> None:
    topic = own.topic()
    process = own.start("produce", topic, "--timeout", "30")
    feed(process, b"".join(b"%d\n" % number for number in range(1000)))
    wait_until(lambda: own.ok("consume", topic).lines)
    eosin.kill()
    feed(process, b"".join(b"%d\n" % number for number in range(1000, 2000)))
    with socket.create_server(("127.0.0.1", eosin.port)) as nobody:
        nobody.settimeout(HANG_S)
        nobody.accept()[0].close()  # it has seen that its broker is gone, and tries again
    eosin.start()
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    assert ended(process) == (0, "")
    assert own.ok("consume", topic).lines == [str(number) for number in range(2000)]


def test_a_broker_that_has_gone_is_said_with_what_is_written(eosin: BrokerProcess, own: Shell) -> None:
    topic = own.topic()
    process = own.start("produce", topic, "--timeout", "1")
    reader = own.start("consume", topic, "--follow", "--timeout", "1")
    feed(process, b"1\n")
    assert lines_of(reader.stdout, 1) == [b"1\n"]
    eosin.kill()
    feed(process, b"2\n")
    code, said = ended(process)
    assert (code, said.count("\n")) == (2, 1)
    assert "Connection refused" in said
    assert said.endswith("; 1 record is written, and it is not known whether 1 more are\n")
    code, said = ended(reader)
    assert (code, said.count("\n"), "Connection refused" in said) == (2, 1, True)


def test_a_topic_that_is_deleted_in_the_middle_is_said(shell: Shell) -> None:
    topic = shell.topic()
    writer = shell.start("produce", topic, "--timeout", "1")
    reader = shell.start("consume", topic, "--follow", "--timeout", "1")
    feed(writer, b"1\n")
    assert lines_of(reader.stdout, 1) == [b"1\n"]
    shell.ok("topics", "delete", topic)
    feed(writer, b"2\n")
    for process in (writer, reader):
        code, said = ended(process)
        assert (code, said.count("\n"), "UNKNOWN_TOPIC" in said) == (1, 1, True), said


def test_reading_ends_before_a_place(shell: Shell) -> None:
    topic = shell.topic()
    rows = [f'{{"value":"{n}","timestamp":{1767225600000 + n * 1000}}}\n' for n in range(5)]
    shell.ok("produce", topic, "--json", given="".join(rows).encode())
    assert shell.ok("consume", topic, "--from", "1", "--to", "3").lines == ["1", "2"]
    assert shell.ok("consume", topic, "--to", "-1").lines == ["0", "1", "2", "3"]
    assert shell.ok("consume", topic, "--from", "2026-01-01T00:00:01", "--to", "2026-01-01T00:00:04").lines == [
        *("1", "2", "3")
    ]
    assert shell.ok("consume", topic, "--from", "3", "--to", "2").lines == []
    assert shell.ok("consume", topic, "--to", "99").lines == ["0", "1", "2", "3", "4"]
    code, said = shell.refused("consume", topic, "--to", "3", "--follow")
    assert (code, said) == (2, "eosin consume: --to ends at a place, --follow never does")


def test_reading_begins_where_a_group_is_and_does_not_move_it(shell: Shell) -> None:
    topic, group = shell.topic(2), unique("group")
    for partition in ("0", "1"):
        shell.ok("produce", topic, "--partition", partition, given=b"1\n2\n3\n")
    shell.ok("groups", "reset-offsets", group, "--topic", f"{topic}:0", "--to-offset", "2", "--execute")
    asked = ("consume", topic, "--group", group, "--show", "partition,offset")
    assert sorted(shell.ok(*asked).lines) == ["0\t2\t3", "1\t0\t1", "1\t1\t2", "1\t2\t3"]
    assert sorted(shell.ok(*asked, "--from", "-1").lines) == ["0\t2\t3", "1\t2\t3"]
    assert shell.ok(*asked, "--partition", "0").lines == ["0\t2\t3"]
    shell.ok("topics", "delete-records", f"{topic}:0", "--before", "latest", "--execute")
    assert shell.ok(*asked, "--partition", "0").lines == []
    code, said = shell.refused("consume", topic, "--group", unique("nobody"))
    assert (code, said.endswith(f" has no position in {topic}")) == (1, True)


class _HeldMarkers(RequestHooks):
    """Leaders of partitions that are not there before somebody asks how a transaction is."""

    def __init__(self) -> None:
        self._is_held = True
        self._targets: MarkerTargets | None = None

    def before(self, targets: MarkerTargets) -> MarkerTargets:
        self._targets = targets
        return self

    def target(self, partition: TopicPartition) -> MarkerTarget | ErrorCode:
        assert self._targets is not None
        return ErrorCode.LEADER_NOT_AVAILABLE if self._is_held else self._targets.target(partition)

    async def begun(self, observed: ObservedRequest) -> None:
        if observed.api.key is ApiKey.DESCRIBE_TRANSACTIONS:
            self._is_held = False


def test_who_reads_after_produce_has_ended_is_shown_its_transaction() -> None:
    """A broker confirms the end of a transaction before its markers are written."""
    held = _HeldMarkers()
    with ThreadedBroker(markers=held.before, hooks=held) as broker, Shell(broker.address) as shell:
        topic = shell.topic()
        shell.ok("produce", topic, "--transactional-id", unique("id"), given=b"one book\n")
        assert shell.ok("consume", topic).lines == ["one book"]
