"""`SpanFacts`: a span in plain values: name, times, attributes, events, reason. Pure: facts in, facts out.

Names of attributes follow OpenTelemetry's semantic conventions for messaging and Kafka (1.36, in development there)
where they have one; `eosin.*` are ours. No record's content is ever in a span.
"""

from itertools import islice
from typing import Final

import msgspec

from eosin.coordinator.transactions.rules.many_partitions import ordered
from eosin.observe.explain.sentences import why
from eosin.observe.recorder.events import (
    NO_TIME,
    Cause,
    ClientIdentity,
    Event,
    EventKind,
    Notable,
    Takeover,
    identity_of,
)
from eosin.observe.tracing.span_sources import (
    RefusedProducer,
    SpanIds,
    Traced,
    TracedTransaction,
    ids_of_transaction,
    span_id_of_refusal,
)

MOST_PARTITIONS: Final = 64
"""Partitions that a span names; it counts all of them."""
AttributeValue = str | int | tuple[str, ...]
Attributes = dict[str, AttributeValue]


class SpanEvent(msgspec.Struct, frozen=True):
    """Something that happened within a span."""

    at_ms: int
    name: str
    attributes: Attributes


class SpanFacts(msgspec.Struct, frozen=True):
    """A span that is over."""

    ids: SpanIds
    parent: SpanIds | None
    name: str
    begun_ms: int
    ended_ms: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    error: str = ""
    """The reason why it failed, in one sentence; empty if it did not."""


def facts_of(traced: Traced, cluster_id: str) -> SpanFacts:
    """The span of what was traced."""
    if isinstance(traced, TracedTransaction):
        return _transaction(traced, cluster_id)
    return _refusal(traced, cluster_id)


def _transaction(ended: TracedTransaction, cluster_id: str) -> SpanFacts:
    txn = ended.prepared
    name = txn.transactional_id
    partitions = islice(ordered(txn.partitions), MOST_PARTITIONS)
    attributes: Attributes = {
        "messaging.system": "kafka",
        "eosin.transactional_id": name,
        "eosin.producer_id": txn.producer_id,
        "eosin.producer_epoch": ended.producer_epoch,
        "eosin.outcome": ended.outcome,
        "eosin.partitions": tuple(map(str, partitions)),
        "eosin.partition_count": len(txn.partitions),
        "eosin.transaction_timeout_ms": txn.timeout_ms,
        "eosin.transaction_version": txn.client_transaction_version,
        **_client(identity_of(ended.opened_by)),
    }
    if ended.left_out:
        attributes["eosin.events_left_out"] = ended.left_out
    reasons = [_reason(name, ended, each) for each in ended.takeovers if _is_within(ended, each.at_ms)]
    events = [_event(Event(*each)) for each in ended.events]
    events += reasons
    events += [_notable(name, each) for each in ended.notable if _is_shown_as_event(ended, each)]
    events.append(_completed(ended))
    events.sort(key=lambda each: each.at_ms)
    is_error = ended.outcome in ("timeout", "fenced")
    error = str(reasons[-1].attributes["eosin.reason"]) if reasons else f"{name} ended by {ended.outcome}"
    return SpanFacts(
        ids_of_transaction(cluster_id, name, ended.begun_ms, ended.number),
        None,
        f"transaction {name}",
        ended.begun_ms,
        ended.ended_ms,
        attributes,
        tuple(events),
        error if is_error else "",
    )


def _refusal(refused: RefusedProducer, cluster_id: str) -> SpanFacts:
    """A span without a length, in the trace of the transaction that the refused producer has lost."""
    notable, name = refused.notable, refused.transactional_id
    has_lost = notable.by is not None and notable.by.begun_ms != NO_TIME
    begun_ms = notable.by.begun_ms if notable.by is not None and has_lost else notable.at_ms
    lost = ids_of_transaction(cluster_id, name, begun_ms)
    return SpanFacts(
        SpanIds(lost.trace_id, span_id_of_refusal(lost.trace_id, notable)),
        lost if has_lost else None,
        f"fenced {name}",
        notable.at_ms,
        notable.at_ms,
        {
            "messaging.system": "kafka",
            "eosin.transactional_id": name,
            "eosin.producer_id": notable.producer_id,
            "eosin.producer_epoch": notable.producer_epoch,
            "error.type": notable.error,
            "eosin.cause": str(notable.cause),
            **_client(notable.who),
        },
        error=why(name, notable, notable.at_ms),
    )


def _event(event: Event) -> SpanEvent:
    attributes: Attributes = {}
    if event.kind in (EventKind.BEGIN, EventKind.ADD):
        attributes["eosin.partition_count"] = event.number
    elif event.kind is EventKind.MARKER_REFUSED:
        partition, _, error = event.what.rpartition(" ")
        attributes |= {"eosin.partition": partition, "error.type": error, "eosin.times": event.number}
    elif event.kind is EventKind.WAITED:
        attributes |= {"eosin.request": event.what, "eosin.waited_ms": event.number}
    elif event.kind is EventKind.PREPARED:
        attributes["eosin.outcome"] = event.what
    return SpanEvent(event.at_ms, event.kind.value, attributes | _client(identity_of(event.who)))


def _reason(name: str, ended: TracedTransaction, takeover: Takeover) -> SpanEvent:
    """The event that says why the coordinator, or another instance, has ended it or taken it over."""
    kind = EventKind.TIMEOUT if takeover.cause is Cause.TIMEOUT else EventKind.FENCED
    told = Notable(
        takeover.at_ms, kind, takeover.producer_id, ended.producer_epoch, cause=takeover.cause.value, by=takeover
    )
    reason = why(name, told, takeover.at_ms)
    attributes: Attributes = {"eosin.cause": takeover.cause.value, "eosin.reason": reason}
    return SpanEvent(takeover.at_ms, kind.value, attributes | _client(takeover.who))


def _notable(name: str, notable: Notable) -> SpanEvent:
    attributes: Attributes = {"eosin.reason": why(name, notable, notable.at_ms)}
    if notable.error:
        attributes["error.type"] = notable.error
    return SpanEvent(notable.at_ms, notable.kind.value, attributes | _client(notable.who))


def _is_shown_as_event(ended: TracedTransaction, notable: Notable) -> bool:
    """A timeout is told by its takeover, and a fenced producer has a span of its own."""
    return notable.kind in (EventKind.REFUSED, EventKind.OPERATOR, EventKind.HEALED) and _is_within(
        ended, notable.at_ms
    )


def _is_within(ended: TracedTransaction, at_ms: int) -> bool:
    return ended.begun_ms <= at_ms <= ended.ended_ms


def _completed(ended: TracedTransaction) -> SpanEvent:
    attributes: Attributes = {"eosin.partition_count": ended.partitions}
    if ended.prepared_ms != NO_TIME:
        attributes["eosin.markers_ms"] = max(0, ended.ended_ms - ended.prepared_ms)
    return SpanEvent(ended.ended_ms, "markers_written", attributes)


def _client(who: ClientIdentity | None) -> Attributes:
    if who is None:
        return {}
    software = "/".join(part for part in (who.software, who.version) if part)
    found = {
        "messaging.client.id": who.client_id,
        "user_agent.original": software,
        "network.peer.address": who.peer,
    }
    return {key: value for key, value in found.items() if value}
