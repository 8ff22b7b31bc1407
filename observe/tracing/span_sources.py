"""The sources of spans: a transaction that is over, or a producer that was refused as out of date.

Values only, which the event loop fills with what is there already. Always true: the span of a transaction that was
taken from its producer has the same ids whoever computes them, so that a refusal which comes later, or after a restart,
joins its trace.
"""

from hashlib import blake2b
from typing import NamedTuple

import msgspec

from eosin.coordinator.ports import Requester
from eosin.coordinator.transactions.rules.state import Txn
from eosin.observe.recorder.events import KeptEvent, Notable, Takeover


class TracedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction whose last marker is written."""

    prepared: Txn
    """Its state before that: PREPARE_COMMIT or PREPARE_ABORT."""
    producer_epoch: int
    """Of its records."""
    outcome: str
    """commit, abort, timeout or fenced."""
    begun_ms: int
    prepared_ms: int
    """The time at which the decision was durable; -1 if that was before the start."""
    ended_ms: int
    partitions: int
    opened_by: Requester | None
    events: list[KeptEvent]
    """The recorder's, which lets go of them with the end of the transaction."""
    left_out: int
    """Events that the recorder did not keep."""
    takeovers: tuple[Takeover, ...]
    notable: tuple[Notable, ...]
    number: int
    """Tells it from others of its id that began in the same ms; 0 when it was taken from its producer."""


class RefusedProducer(msgspec.Struct, frozen=True, gc=False):
    """A request was refused because its pair is out of date."""

    transactional_id: str
    notable: Notable


Traced = TracedTransaction | RefusedProducer


class SpanIds(NamedTuple):
    """The ids of a span (W3C Trace Context)."""

    trace_id: int
    """128 bits."""
    span_id: int
    """64 bits."""


def ids_of_transaction(cluster_id: str, transactional_id: str, begun_ms: int, number: int = 0) -> SpanIds:
    """The ids of the span of the transaction of an id that began then; `number` as in `TracedTransaction`."""
    text = f"{cluster_id}\0{transactional_id}\0{begun_ms}\0{number}"
    digest = blake2b(text.encode(), digest_size=24).digest()
    # An id of zeros is none.
    return SpanIds(int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1)


def span_id_of_refusal(trace_id: int, notable: Notable) -> int:
    """The id of the span of a refusal in that trace."""
    text = f"{trace_id}\0{notable.producer_id}\0{notable.producer_epoch}\0{notable.cause}\0{notable.at_ms}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) or 1
