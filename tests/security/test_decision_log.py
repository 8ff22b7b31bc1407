"""The log of denials stays small, whatever names a client asks about (security.md 4.9)."""

import logging
from collections.abc import Iterator

import pytest
from manual_clock import ManualClock

from eosin.model.principals import Principal
from eosin.model.resources import Operation, ResourceType
from eosin.runtime.log_budget import LINES, MAX_CAUSES, WINDOW_MS
from eosin.runtime.logging_format import TextFormatter
from eosin.security.authorizer import AccessDecision
from eosin.security.decision_log import KEPT_CHARS, LINES_OF_USER, MAX_KINDS, SAME_DENIAL_MS, LoggedDecisions
from eosin.security.session import Session

MALLORY = Session(principal=Principal("User", "mallory"), host="10.0.0.1", api="FIND_COORDINATOR")
ALICE = Session(principal=Principal("User", "alice"), host="10.0.0.1", api="FIND_COORDINATOR")


class Log:
    """A decision log, and the lines that it wrote."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.explained = 0
        self.decisions = LoggedDecisions(self.clock, self._explain)
        self.lines: list[str] = []

    def _explain(self, *question: object) -> AccessDecision:
        self.explained += 1
        return AccessDecision(False, "DefaultDeny")

    def deny(self, session: Session, name: str) -> None:
        self.decisions.denied(session, Operation.DESCRIBE, ResourceType.GROUP, name, quiet=False)


class _Keep(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines
        self.setFormatter(TextFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    handler = _Keep(made.lines)
    logger = logging.getLogger("eosin.authorizer")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield made
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_request_of_200_000_names_has_a_few_lines_and_their_count(log: Log) -> None:
    for index in range(200_000):
        log.deny(MALLORY, f"group-{index}")
    log.clock.advance(WINDOW_MS)
    assert len(log.lines) == LINES + 1
    assert f"left_out={200_000 - LINES}" in log.lines[-1]
    assert "User:mallory" in log.lines[-1]
    assert sum(map(len, log.lines)) < 10_000
    assert log.explained == LINES, "nobody works for a line that is not written"


def test_a_flood_that_goes_on_has_one_line_for_each_window(log: Log) -> None:
    for window in range(10):
        for index in range(1000):
            log.deny(MALLORY, f"group-{window}-{index}")
        log.clock.advance(WINDOW_MS)
    assert len(log.lines) == LINES + 10
    log.clock.advance(2 * WINDOW_MS)
    log.deny(MALLORY, "afterwards")
    assert "resource=afterwards" in log.lines[-1]


def test_the_flood_of_one_hides_no_denial_of_another(log: Log) -> None:
    for index in range(1000):
        log.deny(MALLORY, f"group-{index}")
    log.deny(ALICE, "orders")
    assert "User:alice" in log.lines[-1]


def test_what_is_kept_of_denials_is_bounded_however_long_their_names_are(log: Log) -> None:
    for index in range(3 * MAX_KINDS):
        log.deny(MALLORY, f"{index}-" + "x" * 30_000)
        log.clock.advance(WINDOW_MS)
    kept = [part for same in log.decisions.kinds for part in same if isinstance(part, str)]
    assert len(log.decisions.kinds) <= MAX_KINDS
    assert max(map(len, kept)) <= KEPT_CHARS


def test_so_many_addresses_leave_no_more_behind_than_there_is_room_for(log: Log) -> None:
    for index in range(3 * MAX_KINDS):
        host = f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"
        log.deny(Session(principal=MALLORY.principal, host=host), "orders")
    assert log.decisions.floods <= MAX_CAUSES
    log.clock.advance(2 * WINDOW_MS)
    assert log.decisions.floods == 0, "who asks no more is forgotten"


def test_addresses_of_one_ipv6_network_count_as_one(log: Log) -> None:
    for index in range(1000):
        log.deny(Session(principal=MALLORY.principal, host=f"2001:db8::{index:x}"), f"group-{index}")
    assert len(log.lines) == LINES


def test_a_user_has_some_lines_however_many_addresses_it_comes_from(log: Log) -> None:
    """And at whatever pace: this one never spends all that one address has."""
    for number in range(600):
        for index in range(LINES - 1):
            log.deny(Session(principal=MALLORY.principal, host=f"10.0.0.{number % 200}"), f"group-{number}-{index}")
        log.clock.advance(WINDOW_MS // 10)
    windows = 600 * (WINDOW_MS // 10) // SAME_DENIAL_MS
    assert len(log.lines) == LINES_OF_USER + windows
    counts = [int(line.partition("left_out=")[2].split()[0]) for line in log.lines if "left_out" in line]
    assert sum(counts) == 600 * (LINES - 1) - LINES_OF_USER, "all are counted"
    log.deny(ALICE, "orders")
    assert "User:alice" in log.lines[-1]


def test_those_who_did_not_log_in_are_different_ones_at_each_address(log: Log) -> None:
    for number in range(200):
        log.deny(Session(host=f"10.0.0.{number}"), f"group-{number}")
    assert len(log.lines) == 200


def test_equal_denials_use_up_no_lines(log: Log) -> None:
    for _ in range(1000):
        log.deny(MALLORY, "orders")
    log.deny(MALLORY, "payments")
    assert [line.partition(" resource=")[2].partition(" ")[0] for line in log.lines] == ["orders", "payments"]
