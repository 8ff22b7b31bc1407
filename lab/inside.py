"""`Inside`: what only the broker itself knows of its transactions, groups and connections.

Always true: outcomes are the coordinator's own decisions, in their order, at most `MOST_OUTCOMES` of an id.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

from eosin.client.client import Client
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.lab.clock.lab_clock import LabClock
from eosin.lab.common.errors import LabError
from eosin.lab.common.values import ConnectionInWork
from eosin.lab.crash.lab_markers import MarkerDelay
from eosin.lab.history.decisions import record_decisions
from eosin.lab.history.recording import Recording
from eosin.lab.inside_facts import InsideFacts
from eosin.node.running import RunningNode
from eosin.observe.recorder.events import EventKind, Notable, TransactionSummary
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from eosin.coordinator.groups.rules.group import Group
    from eosin.lab.clock.quiet import Quiet
    from eosin.lab.faults.armed_rules import ArmedRules
    from eosin.observe.recorder.recorder import FlightRecorder

MOST_OUTCOMES: Final = 10_000
"""Of an id; a test that looks at more of them has lost the first ones."""
_ENDING: Final = {
    TransactionState.PREPARE_COMMIT: "commit",
    TransactionState.COMPLETE_COMMIT: "commit",
    TransactionState.PREPARE_ABORT: "abort",
    TransactionState.COMPLETE_ABORT: "abort",
}
MARKERS_MS: Final = 2000
"""Longest wait of a reader for markers: those that cannot be written are what a test may be about."""


class Inside:
    """One broker of the lab, from its own event loop."""

    markers_ms: Final = MARKERS_MS

    def __init__(
        self, node: RunningNode, clock: LabClock, recording: Recording | None = None, before: "Inside | None" = None
    ) -> None:
        """`before` is that of the broker's life before this one: outcomes go on where they were."""
        self._node: Final = node
        self.clock: Final = clock
        """The broker's."""
        self.recording: Final = recording
        """The history of the broker, if one is kept."""
        self.marker_delay = MarkerDelay(0)
        """The time for which markers are kept on purpose."""
        self.rules: ArmedRules | None = None
        """The rules of its faults."""
        self.on_outcome: Callable[[str, str], None] | None = None
        """Called with an id and the outcome of its transaction, or `expired`."""
        self._ended: defaultdict[str, deque[str]] = (
            defaultdict(lambda: deque(maxlen=MOST_OUTCOMES)) if before is None else before._ended
        )
        self._rolled: Final[dict[str, str]] = {}
        """Outcomes that the start has decided, and that are not among the others yet."""
        if before is not None:
            self._continue_from(before)
        recorder = self._recorder
        if recorder is None:
            return
        self._forward = recorder.on_notable
        recorder.on_ended = self._record_end
        recorder.on_notable = self._record_notable
        if recording is not None:
            record_decisions(node, recording)

    def _continue_from(self, before: "Inside") -> None:
        """Remember the transactions that were under way when the broker ended, and that its start ends."""
        for txns in before._node.services.transactions.txns():
            for old in txns:
                now = self.txn(old.transactional_id)
                if not (old.is_fresh or old.is_at_rest) and now is not None and now.state in _ENDING:
                    commits = _ENDING[now.state] == "commit"
                    self._rolled[old.transactional_id] = "commit" if commits else before._end_of_aborted(old)

    def _end_of_aborted(self, txn: Txn) -> str:
        """The outcome of a transaction that the broker's end has found under way, and whose abort is in the log."""
        if txn.is_preparing:
            return self.decided(txn.transactional_id)
        # The record of the decision was on its way: whoever fences is to come again, whoever aborts has done so.
        pending = txn.pending
        if pending is None or not any(
            type(each) is TransactionReply and each.error is ErrorCode.CONCURRENT_TRANSACTIONS for each in pending.then
        ):
            return "abort"
        return "timeout" if pending.after.updated_ms - txn.start_ms >= txn.timeout_ms else "fenced"

    def _roll_forward(self, transactional_id: str) -> None:
        """Record the end that a start has decided, if there is one."""
        outcome = self._rolled.pop(transactional_id, None)
        if outcome is not None:
            self._ended[transactional_id].append(outcome)

    @property
    def _recorder(self) -> "FlightRecorder | None":
        seen = self._node.observability
        return None if seen is None else seen.recorder

    def facts(self, client: Client) -> InsideFacts:
        """The facts behind explanations."""
        return InsideFacts(client, self._node)

    # Time

    @cached_property
    def quiet(self) -> "Quiet":
        """Tells when the broker has nothing to do."""
        from eosin.lab.clock.quiet import Quiet

        quiet = Quiet(self._node, self.clock)
        if self.rules is not None:
            quiet.held.append(self.rules.held)
            quiet.held_writes.append(self.rules.held_writes)
        return quiet

    def log_starts(self) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return {partition: log.log_start_offset for partition, log in self._node.logs.logs.items()}

    # Transactions

    def txns(self) -> Iterator[Txn]:
        """All transactional ids as the coordinator has them."""
        return (txn for some in self._node.services.transactions.txns() for txn in some)

    def txn(self, transactional_id: str) -> Txn | None:
        """A transactional id as the coordinator has it; None for one that it does not know."""
        return self._node.services.transactions.txn(transactional_id)

    def find_id(self, producer_id: int) -> str | None:
        """The transactional id of a producer id; None for one that has none."""
        for txns in self._node.services.transactions.txns():
            for txn in txns:
                if producer_id in (txn.producer_id, txn.previous_producer_id):
                    return txn.transactional_id
        return None

    def outcomes(self, transactional_id: str) -> list[str]:
        """The outcomes of the transactions that are over. Raises LabError without a recorder."""
        if self._recorder is None:
            raise LabError("outcomes are not recorded, since eosin.recorder.max.bytes is 0")
        txn = self.txn(transactional_id)
        if txn is None or not txn.is_preparing:
            self._roll_forward(transactional_id)
        return list(self._ended.get(transactional_id, ()))

    def decided(self, transactional_id: str) -> str:
        """The outcome of a transaction whose markers are under way."""
        recorder = self._recorder
        track = None if recorder is None else recorder.history(transactional_id)
        for event in reversed(() if track is None else track.events):
            if event.kind == EventKind.PREPARED:
                return event.what
        txn = self.txn(transactional_id)
        return "commit" if txn is not None and txn.state is TransactionState.PREPARE_COMMIT else "abort"

    def fences(self, transactional_id: str) -> list[str]:
        """The causes for which producers of an id were fenced, oldest first, as far as they are remembered."""
        track = None if self._recorder is None else self._recorder.history(transactional_id)
        if track is None:
            return []
        by_operator = [(each.at_ms, "operator") for each in track.notable if each.kind is EventKind.OPERATOR]
        found = [*((each.at_ms, each.cause.value) for each in track.takeovers), *by_operator]
        return [cause for _, cause in sorted(found)]

    def has_markers_to_write(self) -> bool:
        """True if a transaction is decided, and not written to all of its partitions."""
        return any(txn.is_preparing for txn in self.txns())

    def _record_end(self, transactional_id: str, summary: TransactionSummary) -> None:
        self._roll_forward(transactional_id)
        self._note(transactional_id, summary.outcome)

    def _note(self, transactional_id: str, outcome: str) -> None:
        self._ended[transactional_id].append(outcome)
        if self.on_outcome is not None:
            self.on_outcome(transactional_id, outcome)

    def _record_notable(self, transactional_id: str, notable: Notable) -> None:
        if notable.kind is EventKind.EXPIRED:
            self._note(transactional_id, "expired")
        if self._forward is not None:
            self._forward(transactional_id, notable)

    # Groups

    def generation(self, group_id: str) -> int | None:
        """The generation of a group; None for one that is not there."""
        found: Group | ErrorCode = self._node.services.groups.describe(group_id)
        return None if isinstance(found, ErrorCode) else found.generation_id

    def rebalance(self, group_id: str) -> ErrorCode:
        """Have the members of a group join again."""
        return self._node.services.groups.rebalance(group_id)

    def end_session(self, group_id: str, member_id: str) -> ErrorCode:
        """End the session of a member as if it had been silent."""
        return self._node.services.groups.end_session(group_id, member_id)

    def pending_offset(self, group_id: str, partition: TopicPartition) -> int | None:
        """The offset of the group that an open transaction holds; None for none."""
        return self._node.services.groups.pending_offsets(group_id).get(partition)

    # Connections

    def connections(self) -> list[ConnectionInWork]:
        """Connections of clients, oldest first, each with the requests that it waits for, but for a Fetch: that waits
        for records."""
        return [
            ConnectionInWork(
                each.peer,
                each.client_id or "",
                " ".join(part for part in each.software if part),
                tuple(key.name for key, _ in each.begun if key not in (ApiKey.FETCH, ApiKey.SHARE_FETCH)),
            )
            for each in self._node.host.connections
        ]
