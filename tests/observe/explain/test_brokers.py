"""`eosin explain broker`: when the event loop stood still, for whom, and what helps (security.md 6.2)."""

import re
from collections.abc import AsyncIterator

import pytest
from observed_broker import ObservedBroker, observed_broker

from eosin.observe.explain.broker_sentences import explain_brokers
from eosin.observe.explain.facts import BrokerFacts, StallFacts
from eosin.observe.recorder.wording import LONGEST_SENTENCE
from eosin.runtime.clock import stopwatch_ns
from eosin.runtime.loop_watch import STALL_MS

NOON = 1_700_049_600_000
BY_REQUEST = StallFacts(NOON, 312, 305, "request", "", "LIST_OFFSETS", "User:app", "reports", "10.0.0.7:51122", 60)


def facts(*recent: StallFacts, node_id: int = 1, **counts: int) -> BrokerFacts:
    return BrokerFacts(node_id, NOON + 5000, NOON - 3_600_000, counts, recent, sources=("the broker",))


def test_a_stall_by_a_request_names_who_sent_it_and_the_quota_that_helps() -> None:
    found = explain_brokers([facts(BY_REQUEST, request=2, pause=1)])
    assert found.text == (
        "broker 1: its event loop stood still last at 12:00:00.000, for 312 ms: LIST_OFFSETS of 60 bytes by User:app"
        " (reports at 10.0.0.7:51122) ran for so long; 3 stalls (2 by a request, 1 while the process was paused) since"
        " 11:00:00.000. A quota for user app makes it wait for what it has cost"
        " (`eosin quotas set --user NAME request_percentage=10`)."
    )
    assert found.cause == "request"
    assert found.evidence == (
        "broker 1, 12:00:00.000: 312 ms, 305 ms of them at work: LIST_OFFSETS of 60 bytes by User:app"
        " (reports at 10.0.0.7:51122) ran for so long",
    )


@pytest.mark.parametrize(
    ("stall", "what", "helps"),
    [
        (
            StallFacts(NOON, 900, 3, "pause"),
            "the process or the machine was paused, or waited for its disk",
            "No client is at fault: look at the machine's CPU, memory, swap and limits.",
        ),
        (
            StallFacts(NOON, 200, 190, "background", "the cleaner"),
            "background work, the cleaner",
            "No client is at fault; if it comes again, the log's lines with `stall` are worth a report.",
        ),
        (
            StallFacts(NOON, 200, 190, "other", "", "FETCH", "User:app", "", "10.0.0.7:5"),
            "no request ran for so long when it began; FETCH by User:app (10.0.0.7:5) ended last",
            "No client is at fault; if it comes again, the log's lines with `stall` are worth a report.",
        ),
        (
            StallFacts(NOON, 200, 190, "other"),
            "no request of a client ran for so long",
            "No client is at fault; if it comes again, the log's lines with `stall` are worth a report.",
        ),
        (
            StallFacts(NOON, 200, 190, "request", "", "PRODUCE", "User:ANONYMOUS", "app", "10.0.0.7:5", 1024),
            "PRODUCE of 1,024 bytes by User:ANONYMOUS (app at 10.0.0.7:5) ran for so long",
            "A quota for its client id makes it wait for what it has cost (`eosin quotas set --client-id ID"
            " request_percentage=10`); so does a smaller max.message.bytes of its topics.",
        ),
    ],
    ids=["pause", "background work", "a request that went on", "something else", "nobody in particular"],
)
def test_every_cause_has_its_words(stall: StallFacts, what: str, helps: str) -> None:
    found = explain_brokers([facts(stall, **{stall.cause: 1})])
    assert f": {what}; 1 stall (" in found.sentence
    assert found.next is not None
    assert found.next.what == helps


def test_a_broker_without_a_stall_says_so() -> None:
    found = explain_brokers([facts()])
    assert found.text == "broker 1 has had no stall of the event loop over 100 ms since 11:00:00.000."
    assert found.is_known


def test_of_several_brokers_the_one_that_stood_still_last_is_explained_and_all_are_evidence() -> None:
    later = StallFacts(NOON + 1, 150, 140, "other")
    found = explain_brokers([facts(BY_REQUEST, request=1), facts(node_id=2), facts(later, node_id=3, other=1)])
    assert found.sentence.startswith("broker 3: ")
    assert [each.partition(",")[0] for each in found.evidence] == ["broker 1", "broker 3"]


def test_the_longest_stall_is_told_though_newer_ones_have_pushed_it_out() -> None:
    known = facts(StallFacts(NOON, 150, 140, "other"), other=17)
    longest = StallFacts(NOON - 60_000, 900, 880, "background", "the cleaner")
    found = explain_brokers([BrokerFacts(1, known.now_ms, known.since_ms, known.counts, known.recent, longest)])
    assert found.evidence[-1] == (
        "broker 1, the longest, 11:59:00.000: 900 ms, 880 ms of them at work: background work, the cleaner"
    )


def test_names_that_peers_chose_stay_short_and_printable() -> None:
    stall = StallFacts(NOON, 200, 190, "request", "", "FETCH", "User:" + "u" * 300, "\n" + "c" * 300, "10.0.0.7:5", 9)
    found = explain_brokers([facts(stall, request=1)])
    assert found.text.isprintable()
    assert len(found.sentence) <= LONGEST_SENTENCE


def test_without_an_http_listener_it_says_what_would_tell() -> None:
    found = explain_brokers([])
    assert not found.is_known
    assert "eosin serve --http" in found.text


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker() as broker:
        yield broker


@pytest.mark.process
async def test_a_running_broker_tells_when_its_loop_stood_still(broker: ObservedBroker) -> None:
    found = await broker.explain("broker")
    assert found.sentence.startswith("broker 1")
    assert found.is_known
    watch = broker.server.host.loop_watch
    watch.check()
    before = watch.counts["other"]
    until_ns = stopwatch_ns() + 3 * STALL_MS * 1_000_000
    while stopwatch_ns() < until_ns:
        pass
    watch.check()
    if watch.counts["other"] > before:  # else the machine gave this thread no quarter of that time
        assert watch.recent[-1].worked_ms >= STALL_MS / 2
    told = await broker.explain("broker", "broker")
    assert "its event loop stood still last at" in told.sentence
    assert told.sources
    kept = await broker.facts("brokers/loop")
    assert sum(kept["counts"].values()) == len(kept["recent"])
    metrics = (await broker.get("metrics")).body.decode()
    assert re.search(r'^eosin_loop_stalls_total\{cause="(other|pause)"\} [1-9]', metrics, re.MULTILINE)


@pytest.mark.process
async def test_a_broker_whose_listener_nobody_finds_is_unknown(broker: ObservedBroker) -> None:
    found = await broker.explain("broker", over_http=False)
    assert not found.is_known
    assert "--http HOST:PORT" in found.text
