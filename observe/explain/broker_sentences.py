"""The sentences about brokers: when the event loop of one stood still, for whom, and what helps (security.md 6.2).
Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from eosin.observe.explain.explained import Explained, Next
from eosin.observe.explain.facts import BrokerFacts, StallFacts
from eosin.observe.recorder.wording import clipped, duration, moment, name, number, plural

SUBJECT: Final = "broker"
_USER: Final = "User:"
_ANONYMOUS: Final = "User:ANONYMOUS"
_NOBODY_TELLS: Final = "no broker tells how its event loop does."
_TURN_ON: Final = "`eosin serve --http PORT` lets it tell, and --http HOST:PORT names it."
_CAUSES: Final = {
    "request": "by a request",
    "background": "by background work",
    "other": "by other work",
    "pause": "while the process was paused",
}
_PAUSED: Final = "the process or the machine was paused, or waited for its disk"
_NEXT_OF_PAUSE: Final = "No client is at fault: look at the machine's CPU, memory, swap and limits."
_NEXT_OF_WORK: Final = "No client is at fault; if it comes again, the log's lines with `stall` are worth a report."


def explain_brokers(brokers: Sequence[BrokerFacts]) -> Explained:
    """Explains the last stall of their event loops, with a line for each stall that is remembered."""
    if not brokers:
        return Explained(SUBJECT, _NOBODY_TELLS, next=Next(_TURN_ON), is_known=False)
    full = [each.node_id for each in brokers if each.is_disk_full]
    if full:
        others = explain_brokers([msgspec.structs.replace(each, is_disk_full=False) for each in brokers])
        which = f"broker {full[0]}" if len(full) == 1 else f"brokers {', '.join(map(str, full))}"
        sentence = f"the disk of {which} is full: records are refused, readers go on, and transactions end."
        remedy = "Make room: retention.bytes, `eosin topics delete`, or a larger disk; records are taken again at once."
        evidence = (others.sentence, *others.evidence)
        return Explained(SUBJECT, sentence, "disk_full", evidence, Next(remedy), sources=others.sources)
    facts = max(brokers, key=lambda each: each.recent[0].at_ms if each.recent else -1)
    evidence = tuple(
        f"broker {each.node_id}, {moment(stall.at_ms, each.now_ms)}: {_sentence(stall)}"
        for each in brokers
        for stall in each.recent
    )
    since = moment(facts.since_ms, facts.now_ms)
    if not facts.recent:
        which = f"broker {facts.node_id} has" if len(brokers) == 1 else f"{number(len(brokers))} brokers have"
        since = moment(max(each.since_ms for each in brokers), facts.now_ms)
        sentence = f"{which} had no stall of the event loop over 100 ms since {since}."
        return Explained(SUBJECT, sentence, sources=facts.sources)
    last = facts.recent[0]
    sentence = (
        f"broker {facts.node_id}: its event loop stood still last at {moment(last.at_ms, facts.now_ms)}, for"
        f" {duration(last.ms)}: {_what(last)}; {_count(facts)} since {since}"
    )
    longest = facts.longest
    if longest is not None and longest not in facts.recent:
        at = moment(longest.at_ms, facts.now_ms)
        evidence = (*evidence, f"broker {facts.node_id}, the longest, {at}: {_sentence(longest)}")
    return Explained(
        SUBJECT,
        clipped(sentence + "."),
        cause=last.cause,
        evidence=evidence,
        next=Next(_next(last)),
        sources=facts.sources,
    )


def _sentence(stall: StallFacts) -> str:
    return f"{duration(stall.ms)}, {duration(stall.worked_ms)} of them at work: {_what(stall)}"


def _what(stall: StallFacts) -> str:
    match stall.cause:
        case "request":
            return f"{_request(stall)} ran for so long"
        case "background":
            return f"background work, {name(stall.work)}"
        case "pause":
            return _PAUSED
        case _ if stall.api:
            return f"no request ran for so long when it began; {_request(stall)} ended last"
        case _:
            return "no request of a client ran for so long"


def _request(stall: StallFacts) -> str:
    size = f" of {plural(stall.size_bytes, 'byte')}" if stall.size_bytes >= 0 else ""
    client = f"{name(stall.client_id)} at {stall.peer}" if stall.client_id else stall.peer
    return f"{stall.api}{size} by {name(stall.principal)} ({client})"


def _count(facts: BrokerFacts) -> str:
    parts = [f"{number(count)} {_CAUSES.get(cause, cause)}" for cause, count in facts.counts.items() if count]
    return f"{plural(sum(facts.counts.values()), 'stall')} ({', '.join(parts)})"


def _next(stall: StallFacts) -> str:
    if stall.cause == "pause":
        return _NEXT_OF_PAUSE
    if stall.cause != "request":
        return _NEXT_OF_WORK
    if stall.principal == _ANONYMOUS or not stall.principal.startswith(_USER):
        whom, option = "its client id", "--client-id ID"
    else:
        whom, option = f"user {name(stall.principal.removeprefix(_USER))}", "--user NAME"
    limit = "; so does a smaller max.message.bytes of its topics" if stall.api == "PRODUCE" else ""
    return (
        f"A quota for {whom} makes it wait for what it has cost"
        f" (`eosin quotas set {option} request_percentage=10`){limit}."
    )
