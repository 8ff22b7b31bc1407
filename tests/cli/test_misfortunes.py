"""What commands do in trouble: refusals, terminals, other producers, many topics."""

import contextlib
import fcntl
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from refusing_broker import RefusingBroker
from shell import PROGRAM, Shell
from waiting import HANG_S, wait_until
from wire import unique

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.settings.broker import STANDARD_AUTHORIZER

pytestmark = [pytest.mark.process, pytest.mark.slow]

LATER_S = 30
COLUMNS = 40


# RefusalLog


@pytest.fixture(scope="module")
def refusing() -> Iterator[tuple[RefusingBroker, Shell]]:
    """A broker that refuses what a test says, with a topic and a group."""
    with RefusingBroker() as broker, Shell(broker.address) as shell:
        shell.ok("topics", "create", "orders")
        shell.ok("produce", "orders", given=b"1\n")
        shell.ok("groups", "reset-offsets", "readers", "--topic", "orders", "--to-latest", "--execute")
        yield broker, shell


@pytest.mark.parametrize(
    ("arguments", "key", "error"),
    [
        (["topics", "list"], ApiKey.METADATA, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (["topics", "create", "more"], ApiKey.CREATE_TOPICS, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (["topics", "describe", "orders"], ApiKey.LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (["topics", "delete", "orders"], ApiKey.DELETE_TOPICS, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (["produce", "orders"], ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (
            ["produce", "orders", "--transactional-id", "t"],
            ApiKey.INIT_PRODUCER_ID,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (["consume", "orders"], ApiKey.FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (["groups", "list"], ApiKey.LIST_GROUPS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (["groups", "describe", "readers"], ApiKey.OFFSET_FETCH, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (["groups", "delete", "readers"], ApiKey.DELETE_GROUPS, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (["configs", "describe", "--topic", "orders"], ApiKey.DESCRIBE_CONFIGS, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_right_that_is_missing_is_one_sentence(
    refusing: tuple[RefusingBroker, Shell], arguments: list[str], key: ApiKey, error: ErrorCode
) -> None:
    broker, shell = refusing
    broker.refuse_next(key, error)
    code, said = shell.refused(*arguments, given=b"1\n")
    assert broker.stop_refusing()
    assert (code, error.name in said) == (1, True), said


def test_a_transaction_that_may_not_be_written_is_aborted(refusing: tuple[RefusingBroker, Shell]) -> None:
    broker, shell = refusing
    broker.refuse_next(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert shell.refused("produce", "orders", "--transactional-id", "t", given=b"1\n2\n") == (
        1,
        "eosin produce: appending to orders-0: TOPIC_AUTHORIZATION_FAILED;"
        " 0 records are committed, and the open transaction of 2 was aborted",
    )


def test_a_right_to_read_settings_is_not_needed_to_write(refusing: tuple[RefusingBroker, Shell]) -> None:
    broker, shell = refusing
    broker.refuse_next(ApiKey.DESCRIBE_CONFIGS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    shell.ok("produce", "orders", given=b"1\n")
    assert broker.stop_refusing()


def test_a_producer_with_the_rights_of_one_leaves_no_denial_in_the_log(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker, Shell(broker.address) as shell:
        shell.ok("topics", "create", "orders", "--config", "max.message.bytes=2000")
        rights = ("acls", "add", "--principal", "User:ANONYMOUS", "--producer", "--topic", "orders")
        shell.ok(*rights, "--transactional-id", "t")
        shell.ok("produce", "orders", given=b"1\n")
        shell.ok("produce", "orders", "--transactional-id", "t", given=b"1\n2\n")
        assert " denied" not in broker.log
        assert shell.refused("configs", "describe", "--topic", "orders")[0] == 1
        wait_until(lambda: "operation=DESCRIBE_CONFIGS" in broker.log)


# Silence


@pytest.fixture(scope="module")
def silent() -> Iterator[Shell]:
    """A shell beside somebody who accepts connections and never says a word."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=100) as nobody,
        Shell(f"127.0.0.1:{nobody.getsockname()[1]}") as shell,
    ):
        yield shell


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["produce", "orders", "--transactional-id", "t"],
        ["consume", "orders"],
        ["groups", "list"],
        ["configs", "describe", "--topic", "orders"],
        ["quotas", "list"],
        ["cluster", "describe"],
        ["acls", "list"],
        ["users", "list"],
        ["transactions", "list"],
        ["producers", "orders", "0"],
        ["explain", "t"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_peer_that_never_answers_is_one_sentence(silent: Shell, arguments: list[str]) -> None:
    code, said = silent.refused(*arguments, "--timeout", "0.3", given=b"1\n")
    assert (code, said.endswith(f"{silent.address} did not answer API_VERSIONS in 300 ms")) == (2, True), said


# Other producers


def test_a_second_producer_of_the_same_id_ends_the_first(shell: Shell) -> None:
    topic, name = shell.topic(), unique("tx")
    with shell.start("produce", topic, "--transactional-id", name, "--batch", "2") as first:
        assert first.stdin is not None
        first.stdin.write(b"1\n2\n3\n")
        first.stdin.flush()
        wait_until(lambda: b"3" in shell.ok("consume", topic, "--isolation", "read_uncommitted").out)
        shell.ok("produce", topic, "--transactional-id", name, given=b"other\n")
        _, err = first.communicate(b"4\n", timeout=HANG_S)
    said = err.decode()
    assert (first.returncode, said.count("\n")) == (1, 1), said
    assert said.endswith(
        ": another producer has taken the transactional id;"
        " 2 records are committed, and the open transaction was aborted\n"
    )
    assert shell.ok("consume", topic).lines == ["1", "2", "other"]


# Terminals


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a narrow one: what we read from, and what a command has."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)


def everything(descriptor: int) -> str:
    """What is shown until the other end is closed."""
    shown = b""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        if not select.select([descriptor], [], [], 1)[0]:
            continue
        data = b""
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            data = os.read(descriptor, 65536)
        if not data:
            return shown.decode()
        shown += data
    raise AssertionError("the terminal is still open")


def test_progress_fits_a_narrow_terminal_and_leaves_one_line(shell: Shell) -> None:
    topic = shell.topic()
    with terminal() as (ours, theirs):
        process = shell.start("produce", topic, stderr=theirs)
        os.close(theirs)
        assert process.stdin is not None
        lines, shown = 0, ""
        deadline = time.monotonic() + HANG_S
        while "records written, " not in shown and time.monotonic() < deadline:
            process.stdin.write(b"a line\n" * 1000)
            process.stdin.flush()
            lines += 1000
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 65536).decode()
        process.stdin.close()
        shown += everything(ours)
        assert process.wait(HANG_S) == 0
        assert process.stdout is not None
        process.stdout.close()
    *progress, last, rest = re.split("[\r\n]+", shown)
    assert (last.strip(), rest) == (f"{lines:,} records written", "")
    assert any("records written, " in line for line in progress)
    assert max(map(len, progress)) < COLUMNS


def test_a_record_cannot_control_the_terminal(shell: Shell) -> None:
    topic = shell.topic()
    shell.ok("produce", topic, given=b"\x1b[31mred\n")
    with terminal() as (ours, theirs):
        process = shell.start("consume", topic, stdout=theirs, stderr=theirs)
        os.close(theirs)
        assert everything(ours) == "\\x1b[31mred\r\n"
        assert process.wait(HANG_S) == 0
        assert process.stdin is not None
        process.stdin.close()


def test_open_transactions_are_told_to_a_person_and_not_to_a_pipe(shell: Shell) -> None:
    topic = shell.topic()
    with shell.start("produce", topic, "--transactional-id", unique("tx")) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"1\n")
        writer.stdin.flush()
        wait_until(lambda: shell.ok("consume", topic, "--isolation", "read_uncommitted").lines)
        assert shell.ok("consume", topic).lines == []
        with terminal() as (ours, theirs):
            reader = subprocess.Popen([*PROGRAM, "consume", topic], env=shell.environment, stdout=theirs, stderr=theirs)
            os.close(theirs)
            shown = everything(ours)
            reader.wait(HANG_S)
        assert shown == f"eosin consume: {topic}-0: offsets 0 to 0 are behind an open transaction\r\n"
        writer.communicate(timeout=HANG_S)


# Much of it


@pytest.mark.full
def test_hundreds_of_topics_are_made_listed_and_deleted(shell: Shell) -> None:
    names = [unique("many") for _ in range(300)]
    assert len(shell.ok("topics", "create", *names, "--partitions", "1", "--json").rows) == 300
    assert set(names) <= {row["topic"] for row in shell.ok("topics", "list", "--json").rows}
    shell.ok("topics", "delete", *names)
    assert not set(names) & {row["topic"] for row in shell.ok("topics", "list", "--json").rows}


def test_a_name_that_is_not_utf_8_is_one_sentence(shell: Shell) -> None:
    for arguments in (["topics", "describe"], ["produce"]):
        code, said = shell.refused(*arguments, "\udcff")
        assert (code, r"'\udcff' can be no topic: names have" in said) == (2, True), said
    for arguments in (["groups", "describe"], ["transactions", "describe"]):
        code, said = shell.refused(*arguments, "\udcff")
        assert (code, said.endswith(r"'\udcff' is not UTF-8, as all names in Kafka are")) == (2, True), said
