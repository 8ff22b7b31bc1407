"""`record_decisions`: the coordinators' own decisions go into the history of a broker, as their recorders have them."""

from typing import TYPE_CHECKING

from eosin.coordinator.transactions.rules.state import Txn
from eosin.lab.history.occurrences import START
from eosin.lab.history.recording import Recording
from eosin.node.running import RunningNode
from eosin.observe.recorder.events import EventKind, HistoryEvent, Notable, TransactionSummary
from eosin.observe.recorder.group_events import REBALANCE

if TYPE_CHECKING:
    from eosin.observe.recorder.group_recorder import GroupRecorder
    from eosin.observe.recorder.recorder import FlightRecorder

_NOTABLE = {
    EventKind.TIMEOUT: "timeout",
    EventKind.FENCED: "fenced",
    EventKind.EXPIRED: "expired",
    EventKind.OPERATOR: "operator",
}
"""The notable events that are events of their own: a refusal is in the history as a response."""


TV1, TV2 = "TV1", "TV2"


def protocol_of(transaction_version: int) -> str:
    """The protocol by which a producer has ended a transaction. Under TV2 (KIP-890) each has an epoch of its own; under
    TV1, and before it, they share one, so that an end which comes late ends another transaction."""
    return TV2 if transaction_version > 1 else TV1


def record_decisions(node: RunningNode, recording: Recording) -> None:
    """Record what the coordinators of a broker decide from now on. Who listened before goes on to be called."""
    recording.follow(node.clock)
    recording.record(START)
    recording.topic_name = lambda topic_id: _topic_name(node, topic_id)
    seen = node.observability
    if seen is not None and seen.recorder is not None:
        _of_transactions(seen.recorder, recording)
    if seen is not None and seen.groups is not None:
        _of_groups(seen.groups, recording)


def _of_transactions(recorder: "FlightRecorder", recording: Recording) -> None:
    ended_before, noted_before = recorder.on_ended, recorder.on_notable

    def prepared(txn: Txn, outcome: str) -> None:
        recording.record(
            "prepared",
            transactional_id=txn.transactional_id,
            partitions=txn.partitions,
            detail=f"{outcome} epoch {txn.producer_epoch}, {protocol_of(txn.client_transaction_version)}",
        )

    def ended(transactional_id: str, summary: TransactionSummary) -> None:
        if ended_before is not None:
            ended_before(transactional_id, summary)
        recording.record("complete", transactional_id=transactional_id, detail=summary.outcome)

    def noted(transactional_id: str, notable: Notable) -> None:
        if noted_before is not None:
            noted_before(transactional_id, notable)
        what = _NOTABLE.get(notable.kind)
        if what is not None:
            cause = notable.cause if notable.kind is EventKind.FENCED else ""
            pair = f"producer {notable.producer_id} epoch {notable.producer_epoch}"
            recording.record(
                what,
                transactional_id=transactional_id,
                code=notable.error,
                detail=f"{pair}, {cause.replace('_', ' ')}" if cause else pair,
            )

    recorder.on_prepared, recorder.on_ended, recorder.on_notable = prepared, ended, noted


def _of_groups(recorder: "GroupRecorder", recording: Recording) -> None:
    def happened(group_id: str, event: HistoryEvent) -> None:
        if event.kind == REBALANCE:
            recording.record("rebalance", group=group_id, detail=event.what)

    recorder.on_event = happened


def _topic_name(node: RunningNode, topic_id: bytes) -> str:
    topic = node.services.cluster.topic_by_id(topic_id)
    return topic.name if topic is not None else topic_id.hex()
