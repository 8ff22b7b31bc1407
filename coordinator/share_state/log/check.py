"""`StateCheck`: the records of share partitions' states in one partition of `__share_group_state`, against one another
(share-state.md 2 and 3).

For stopped directories. Always true: whatever pruning may leave of a sound log is sound. It deletes what is before the
oldest last snapshot of all states, so each state that there is has its last snapshot.
"""

from collections.abc import Iterator
from typing import Any, Final

from eosin.coordinator.transactions.log.check import TransactionFinding
from eosin.protocol.schemas.records.share_group_state import ShareSnapshotKey
from eosin.storage.inspection.internal_records import UNKNOWN
from eosin.storage.inspection.values import ERROR, WARNING, Decoded

_SNAPSHOT: Final = ShareSnapshotKey.__name__.removesuffix("Key")
_UNKNOWN_OFFSET: Final = -1
_DELIVERY_STATES: Final = range(5)


class _State:
    """One share partition's state, as far as it is compared."""

    __slots__ = ("has_snapshot", "offset", "start_offset", "state_epoch")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.has_snapshot = False
        self.state_epoch = -1
        self.start_offset = _UNKNOWN_OFFSET


class StateCheck:
    """First all of a partition is shown, then it is judged."""

    def __init__(self) -> None:
        self._states: dict[str, _State] = {}
        self._unknown: dict[int, int] = {}

    def show(self, decoded: Decoded, offset: int) -> Iterator[TransactionFinding]:
        """The next record of the partition."""
        if decoded.kind == UNKNOWN:
            self._unknown.setdefault(decoded.key_version, offset)
            return
        name = state_name(decoded)
        for reason in _nonsense(decoded):
            yield TransactionFinding(ERROR, f"the state of {name!r} {reason}", offset)
        if decoded.value is None:  # the tombstone of an update means what that of a snapshot does
            self._states.pop(name, None)
            return
        state = self._states.setdefault(name, _State(offset))
        for reason in _applied(state, decoded.kind, decoded.value):
            yield TransactionFinding(ERROR, f"the state of {name!r} {reason}", offset)

    def finish(self) -> Iterator[TransactionFinding]:
        """Judge what is left in the end."""
        for version, offset in self._unknown.items():
            reason = f"records of a kind that this version does not know (key version {version})"
            yield TransactionFinding(WARNING, reason, offset)
        for name, state in self._states.items():
            if not state.has_snapshot:
                reason = f"the state of {name!r} has updates and no snapshot: its beginning is lost"
                yield TransactionFinding(ERROR, reason, state.offset)


def state_name(decoded: Decoded) -> str:
    """The name by which a state has its partition: `group:topic id:partition`."""
    return ":".join(str(decoded.key[part]) for part in ("group_id", "topic_id", "partition"))


def _nonsense(decoded: Decoded) -> Iterator[str]:
    """Tell of contents that no record may have, whatever was before."""
    value = decoded.value or {}
    for batch in value.get("state_batches", ()):
        if batch["first_offset"] > batch["last_offset"] or batch["delivery_state"] not in _DELIVERY_STATES:
            yield f"has a batch that makes no sense: {batch}"
        elif decoded.kind == _SNAPSHOT and batch["first_offset"] < value["start_offset"]:
            # An update may: it is a write that came late, and is cut when it is read.
            yield f"has deliveries from {batch['first_offset']} on, and begins at {value['start_offset']}"


def _applied(state: _State, kind: str, value: dict[str, Any]) -> Iterator[str]:
    """Bring a state forward, and tell what went back by that."""
    start_offset = int(value["start_offset"])
    if kind == _SNAPSHOT:
        if value["state_epoch"] < state.state_epoch:
            yield f"goes back from epoch {state.state_epoch} to {value['state_epoch']}"
        state.state_epoch, state.start_offset, state.has_snapshot = value["state_epoch"], start_offset, True
    elif start_offset != _UNKNOWN_OFFSET:
        if start_offset < state.start_offset:  # an administrator's change of the offset is a snapshot
            yield f"goes back from offset {state.start_offset} to {start_offset}"
        state.start_offset = start_offset
