"""A transaction that outlives its timeout, and what franz-go makes of it: its row of transactions.md 12.4, under both
transaction protocols. It offers offsets in transactions only through a session that reads and writes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from asked_broker import VERSION, restartable_broker
from late import ACTS, RESTARTED, TIMEOUT_MS, UNREPLACED, Late, refusal, wait_out, warmed_up
from real_clients import franz_go
from real_clients.base import Producer
from real_clients.harness import HarnessRefused
from scenario import Scenario
from toolchains import skipped_without
from wire import better_than_kafka

REPLACED: Final = "after a second instance came"
ITS_ACTS: Final = tuple(act for act in ACTS if act != "send offsets")
SECOND, FIRST = "2", "1"
"""The values of `transaction.version` that its flows differ for."""


class LateSession:
    """A session that has read a record and written one in a transaction, and ends it too late."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.source, self.target = scenario.topic(), scenario.topic()
        self.transactional_id, self.group = scenario.name("tx"), scenario.name("group")
        feed = scenario.producer()
        feed.send(self.source, b"read")
        feed.flush()
        self.session = self.another(timeout_ms=TIMEOUT_MS)
        self.copy(self.session, b"timed out")
        self.session.flush()

    def another(self, timeout_ms: int = 60_000) -> franz_go.Session:
        """An instance of the same application."""
        made = franz_go.Session(
            self.scenario.bootstrap,
            transactional_id=self.transactional_id,
            group=self.group,
            topics=[self.source],
            timeout_ms=timeout_ms,
        )
        self.scenario.closes(made.close)
        return made

    def copy(self, session: franz_go.Session, value: bytes) -> None:
        """One record read, and one written for it."""
        session.begin()
        assert [each.value for each in session.read(1)] == [b"read"]
        session.send(self.target, value)

    def again(self) -> bool:
        """The next transaction: whether it was committed."""
        self.copy(self.session, b"next")
        return ended(self.session)

    def results(self) -> tuple[list[bytes | None], int | None]:
        """What is committed: the records that were written, and the offset of what was read."""
        written = [each.value for each in self.scenario.reader(self.target).read(1)]
        return written, self.scenario.consumer(group=self.group).committed(self.source, 0)


@dataclass
class Situation:
    """Producers for each act and a session, all out of time, and what has happened meanwhile."""

    version: str
    scenario: Scenario
    late: dict[str, Late]
    session: LateSession
    successors: dict[str, Producer]


@pytest.fixture(scope="module", params=[SECOND, FIRST], ids=lambda version: f"version {version}")
def version(request: pytest.FixtureRequest) -> str:
    """The transaction protocol that the broker offers."""
    return str(request.param)


def happened(version: str, meanwhile: str, data_dir: Path) -> Iterator[Situation]:
    with skipped_without():
        franz_go.CLIENT.start()
    with restartable_broker(data_dir, {VERSION: version}) as broker:
        scenario = Scenario(franz_go.CLIENT, broker.address)
        warmed_up(scenario)
        late, session = {act: Late(scenario) for act in ITS_ACTS}, LateSession(scenario)
        wait_out([*late.values(), session])
        if meanwhile == RESTARTED:
            broker.restart()
        successors = {act: each.successor() for act, each in late.items()} if meanwhile == REPLACED else {}
        yield Situation(version, scenario, late, session, successors)
        scenario.close()


@pytest.fixture(scope="module", params=UNREPLACED)
def unreplaced(
    bootstrap: str, version: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Situation]:
    yield from happened(version, request.param, tmp_path_factory.mktemp("unreplaced"))


@pytest.fixture(scope="module")
def replaced(bootstrap: str, version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Situation]:
    yield from happened(version, REPLACED, tmp_path_factory.mktemp("replaced"))


LOST: Final = {(FIRST, "abort"): 1}
"""Transactions that it loses beyond the one that timed out: after an abort at version 1 it goes on with its epoch."""


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, as if it had been replaced")
@pytest.mark.parametrize("act", ITS_ACTS)
def test_franz_go_recovers_from_a_timed_out_transaction(unreplaced: Situation, act: str) -> None:
    late = unreplaced.late[act]
    if act == "abort":
        late.abort()
    else:
        with pytest.raises(HarnessRefused) as refused:
            ACTS[act](late)
        assert refused.value.error.kind == "abortable"
        late.producer.abort()
    assert late.next_transactions(late.producer) == LOST.get((unreplaced.version, act), 0)
    assert late.committed() == [b"next"]


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, as if it had been replaced")
def test_a_timed_out_franz_go_session_reads_its_records_again_and_commits_them(unreplaced: Situation) -> None:
    late = unreplaced.session
    assert not ended(late.session)
    # If its group lost it over the restart, this was a plain abort; and it may rebalance once more.
    assert late.again() or late.again()
    assert late.results() == ([b"next"], 1)


@pytest.mark.parametrize("act", ITS_ACTS)
def test_a_second_instance_fences_a_timed_out_franz_go_producer_for_good(replaced: Situation, act: str) -> None:
    late, successor = replaced.late[act], replaced.successors[act]
    told = [refusal(lambda: ACTS[act](late))]
    for _ in range(2):
        told += [refusal(late.producer.abort), refusal(late.another_transaction)]
        assert told[-1] is not None, "it must not work again"
    assert "fenced" in told
    assert late.next_transactions(successor) == 0
    assert late.committed() == [b"next"]


def test_a_second_instance_fences_a_timed_out_franz_go_session_for_good(replaced: Situation) -> None:
    late = replaced.session
    successor = late.another()
    successor.begin()
    told = [refusal(lambda: late.session.end(commit=True)), refusal(late.session.begin)]
    assert "fenced" in told
    late.session.close()
    assert [each.value for each in successor.read(1)] == [b"read"]
    successor.send(late.target, b"next")
    assert successor.end(commit=True)
    assert late.results() == ([b"next"], 1)


def ended(session: franz_go.Session) -> bool:
    """Whether it was committed; what has to be aborted is by then."""
    try:
        return session.end(commit=True)
    except HarnessRefused as refused:  # at version 1 it tells why
        if refused.error.kind != "abortable":
            raise
        return False
