"""`Inside`: what only the broker itself knows of its transactions, groups and connections.

Always true: outcomes are the coordinator's own decisions, in their order, at most `MOST_OUTCOMES` of an id.
"""

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

from eosin.client.client import Client
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.lab.common.errors import LabError
from eosin.lab.common.values import ConnectionInWork
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
    from eosin.observe.recorder.recorder import FlightRecorder

MOST_OUTCOMES: Final = 10_000
"""Of an id; a test that looks at more of them has lost the first ones."""
MARKERS_MS: Final = 2000
"""Longest wait of a reader for markers: those that cannot be written are what a test may be about."""


class Inside:
    """One broker of the lab, from its own event loop."""

    markers_ms: Final = MARKERS_MS

    def __init__(self, node: RunningNode, recording: Recording | None = None) -> None:
        self._node: Final = node
        self.recording: Final = recording
        """The history of the broker, if one is kept."""
        self._ended: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=MOST_OUTCOMES))
        recorder = self._recorder
        if recorder is None:
            return
        self._forward = recorder.on_notable
        recorder.on_ended = self._record_end
        recorder.on_notable = self._record_notable
        if recording is not None:
            record_decisions(node, recording)

    @property
    def _recorder(self) -> "FlightRecorder | None":
        seen = self._node.observability
        return None if seen is None else seen.recorder

    def facts(self, client: Client) -> InsideFacts:
        """The facts behind explanations."""
        return InsideFacts(client, self._node)

    # Transactions

    def txn(self, transactional_id: str) -> Txn | None:
        """A transactional id as the coordinator has it; None for one that it does not know."""
        return self._node.services.transactions.txn(transactional_id)

    def outcomes(self, transactional_id: str) -> list[str]:
        """The outcomes of the transactions that are over. Raises LabError without a recorder."""
        if self._recorder is None:
            raise LabError("outcomes are not recorded, since eosin.recorder.max.bytes is 0")
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
        return any(txn.is_preparing for some in self._node.services.transactions.txns() for txn in some)

    def _record_end(self, transactional_id: str, summary: TransactionSummary) -> None:
        self._ended[transactional_id].append(summary.outcome)

    def _record_notable(self, transactional_id: str, notable: Notable) -> None:
        if notable.kind is EventKind.EXPIRED:
            self._ended[transactional_id].append("expired")
        if self._forward is not None:
            self._forward(transactional_id, notable)

    # Groups

    def generation(self, group_id: str) -> int | None:
        """The generation of a group; None for one that is not there."""
        found: Group | ErrorCode = self._node.services.groups.describe(group_id)
        return None if isinstance(found, ErrorCode) else found.generation_id

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
                tuple(key.name for key, _ in each.begun if key is not ApiKey.FETCH),
            )
            for each in self._node.host.connections
        ]
