"""The sentences about producer ids that no transactional id has: where they write, and when they are forgotten
(console.md 3). Pure."""

from eosin.observe.explain.explained import Explained, Next
from eosin.observe.explain.facts import ProducerFacts, ProducerPlace
from eosin.observe.recorder.wording import clipped, duration, moment, name, number, plural


def explain_producer(facts: ProducerFacts) -> Explained:
    """Explain a producer id without a transactional id: its last writes, and the time until they are forgotten."""
    first = facts.places[0]
    others = len(facts.places) - 1 + facts.left_out
    more = f" and in {plural(others, 'partition')} more" if others else ""
    at = moment(first.last_ms, facts.now_ms)
    sentence = (
        f"no coordinator has a transactional id for producer {facts.producer_id}: an idempotent producer, epoch"
        f" {first.producer_epoch}, known in {name(first.partition)}{more}, written last at {at}"
    )
    return Explained(
        str(facts.producer_id),
        clipped(sentence + "."),
        evidence=tuple(_line(each, facts.now_ms) for each in facts.places),
        next=_next(facts),
        sources=facts.sources,
    )


def _next(facts: ProducerFacts) -> Next | None:
    due = [each.forgotten_ms for each in facts.places]
    if min(due) < 0:
        return None  # a transaction is open, which its partition explains; or nobody tells
    at_ms = max(due)
    left_ms = at_ms - facts.now_ms
    when = f"{moment(at_ms, facts.now_ms)} (in {duration(left_ms)}; producer.id.expiration.ms)"
    if left_ms <= 0:
        when = "the next look (producer.id.expiration.ms)"
    where = "Its partition forgets it" if len(due) + facts.left_out == 1 else "The last partition forgets it"
    return Next(f"{where} at {when} unless it writes again.", at_ms)


def _line(place: ProducerPlace, now_ms: int) -> str:
    sequence = f"last sequence {number(place.last_sequence)}" if place.last_sequence >= 0 else "no records"
    told = f"{name(place.partition)}: epoch {place.producer_epoch}, {sequence}"
    if place.is_open:
        return f"{told}, a transaction is open"
    if place.forgotten_ms < 0:
        return told
    return f"{told}, forgotten at {moment(place.forgotten_ms, now_ms)}"
