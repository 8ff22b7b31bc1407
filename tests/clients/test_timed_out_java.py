"""A transaction that outlives its timeout, and what each release of the Java client makes of it: its rows of
transactions.md 12.4. The newest one speaks transaction version 2, and 1 where the broker offers no more.

The application does what KafkaProducer's documentation shows: it closes the producer on an error that is fatal there,
and aborts on any other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import late
import pytest
from asked_broker import NO_FIRST, VERSION, Restartable, has_first_protocol, restartable_broker
from late import RESTARTED, UNREPLACED, Late, refusal, wait_out, warmed_up
from real_clients import java
from real_clients.base import Producer
from real_clients.harness import HarnessRefused
from real_clients.remote import RemoteClient
from scenario import Scenario
from toolchains import skipped_without
from wire import better_than_kafka

pytestmark = pytest.mark.timeout(400)  # the first of them fetches the clients

TIMEOUT_MS: Final = 4000
"""Also of the transactions that come after the late one, in processes of Java that share a machine with all else."""
REPLACED: Final = "after a second instance came"


def _produce_in_commit(late: Late) -> None:
    """The record is sent by the commit: then the client does not ask for a new epoch at once."""
    late.producer.send(late.topic, b"late")
    late.producer.commit()


def _produce_elsewhere_in_commit(late: Late) -> None:
    late.producer.send(late.elsewhere, b"late")
    late.producer.commit()


ACTS: Final[Mapping[str, Callable[[Late], None]]] = {
    **late.ACTS,
    "produce in commit": _produce_in_commit,
    "produce elsewhere in commit": _produce_elsewhere_in_commit,
}


@dataclass(frozen=True, eq=False)
class Release:
    """A release of the client under one transaction version of the broker."""

    client: RemoteClient
    version: str
    lost: Mapping[str, int] = field(default_factory=dict)
    """Transactions that it loses beyond the one that timed out, where that is not 0 (transactions.md 12.4)."""
    looks_fatal: tuple[str, ...] = ()
    """Acts whose exception may be of a type at which the documented application closes the producer, though it could
    go on."""

    def __str__(self) -> str:
        return f"{self.client.name} at version {self.version}"

    def may_lose(self, act: str) -> set[int]:
        """Transactions that it may lose. Where the client has to ask for a new epoch itself it asks after a record
        that failed, unless it is ending the transaction by then; and it tells the application before it looks. So
        either may be faster: the sender than the commit, or the application's abort than the sender."""
        races = bool(self.lost) and act in ("produce", "produce in commit")
        return {0, 1} if races else {self.lost.get(act, 0)}


SECOND, FIRST = "2", "1"
"""What the broker offers, `transaction.version`. Releases below 4.0 speak version 1 to both."""
AT_FIRST: Final = {"abort": 1, "produce in commit": 1}
ADDING: Final = ("produce elsewhere", "produce elsewhere in commit", "send offsets")
HELPED: Final = (
    Release(java.CLIENT, SECOND),
    Release(java.CLIENT, FIRST, {**AT_FIRST, "commit": 1}, looks_fatal=ADDING),
    Release(java.CLIENT_3, SECOND, AT_FIRST),
    Release(java.CLIENT_2, SECOND, AT_FIRST),
    Release(java.CLIENT_25, SECOND, AT_FIRST),
)
NOT_HELPED: Final = Release(java.CLIENT_BELOW_25, SECOND)
RELEASES: Final = (*HELPED, NOT_HELPED)
NEEDS_FIRST: Final = pytest.mark.skipif(not has_first_protocol(), reason=NO_FIRST)


def parameters(releases: Sequence[Release]) -> list[Any]:
    """Each release; left out is what needs a broker that is not there."""
    return [pytest.param(each, id=str(each), marks=NEEDS_FIRST if each.version == FIRST else ()) for each in releases]


@dataclass(frozen=True)
class Situation:
    """One producer for each release and act, all out of time, and their second instances."""

    late: Mapping[tuple[Release, str], Late]
    successors: Mapping[tuple[Release, str], Producer]


Brokers = Mapping[str, Restartable]
"""By transaction version; without the first one where nobody offers no more than that."""


@pytest.fixture(scope="module")
def brokers(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with skipped_without(), ThreadPoolExecutor(len(RELEASES)) as side_by_side:
        list(side_by_side.map(lambda each: each.client.start(), RELEASES))
    folder = tmp_path_factory.mktemp("java")
    with ExitStack() as running:
        yield {
            version: running.enter_context(restartable_broker(folder / version, {VERSION: version}))
            for version in ((SECOND, FIRST) if has_first_protocol() else (SECOND,))
        }


def happened(brokers: Brokers, meanwhile: str) -> Iterator[Situation]:
    asking = [each for each in RELEASES if each.version in brokers]
    scenarios = {each: Scenario(each.client, brokers[each.version].address) for each in asking}
    for scenario in scenarios.values():
        warmed_up(scenario)
    with ThreadPoolExecutor(len(asking)) as side_by_side:  # they are processes of their own
        made = side_by_side.map(lambda each: [Late(scenarios[each], TIMEOUT_MS) for _ in ACTS], asking)
        producers = {
            (each, act): late
            for each, of_it in zip(asking, made, strict=True)
            for act, late in zip(ACTS, of_it, strict=True)
        }
    wait_out(producers.values())
    if meanwhile == RESTARTED:
        for broker in brokers.values():
            broker.restart()
    successors = {key: each.successor() for key, each in producers.items()} if meanwhile == REPLACED else {}
    yield Situation(producers, successors)
    for scenario in scenarios.values():
        scenario.close()


@pytest.fixture(scope="module", params=UNREPLACED)
def unreplaced(brokers: Brokers, request: pytest.FixtureRequest) -> Iterator[Situation]:
    yield from happened(brokers, request.param)


@pytest.fixture(scope="module")
def replaced(brokers: Brokers) -> Iterator[Situation]:
    yield from happened(brokers, REPLACED)


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, as if it had been replaced")
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("release", parameters(HELPED))
def test_java_recovers_from_a_timed_out_transaction(unreplaced: Situation, release: Release, act: str) -> None:
    late = unreplaced.late[release, act]
    if act == "abort":
        late.abort()
    else:
        with pytest.raises(HarnessRefused) as refused:
            ACTS[act](late)
        expected = {"abortable", "fatal"} if act in release.looks_fatal else {"abortable"}
        assert refused.value.error.kind in expected
        late.producer.abort()
    lost = late.next_transactions(late.producer)
    assert lost in release.may_lose(act), late.refusals
    assert late.committed() == [b"next"]


@pytest.mark.parametrize("act", [act for act in ACTS if act != "abort"])
def test_java_below_2_5_is_fenced_after_a_timeout_and_goes_on_when_rebuilt(unreplaced: Situation, act: str) -> None:
    late = unreplaced.late[NOT_HELPED, act]
    assert refusal(lambda: ACTS[act](late)) == "fenced"
    late.is_rebuilt()


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, so that not even its abort succeeds")
def test_java_below_2_5_may_abort_after_a_timeout_and_is_fenced_at_the_next_transaction(unreplaced: Situation) -> None:
    late = unreplaced.late[NOT_HELPED, "abort"]
    late.abort()
    assert refusal(late.another_transaction) == "fenced"
    late.is_rebuilt()


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("release", parameters(RELEASES))
def test_a_second_instance_fences_a_timed_out_java_producer_for_good(
    replaced: Situation, release: Release, act: str
) -> None:
    late = replaced.late[release, act]
    told = refusal(lambda: ACTS[act](late))
    if told != "fenced":  # an old epoch of a record asks for an abort first
        assert told == "other"
        told = refusal(late.producer.abort)
    assert told == "fenced"
    assert refusal(late.another_transaction) == "fenced"
    assert late.next_transactions(replaced.successors[release, act]) == 0
    assert late.committed() == [b"next"]
