"""The needs of share groups besides those of consumer groups, declared by them: the states of their partitions, and
their settings."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from eosin.coordinator.groups.rules.config import ShareConfigOf
from eosin.coordinator.groups.share.rules.events import ShareEvent
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.share_states import SharePartition, ShareState, ShareStateStore, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode

_REFUSAL: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


class ShareGroupObserver(Protocol):
    """Hears what was decided about share groups (console.md 2.1). It decides nothing, and must not raise."""

    def share_decided(self, before: ShareGroup, after: ShareGroup, event: ShareEvent | None, now_ms: int) -> None:
        """`event` has turned `before` into `after`; None: the group was read from its log."""


class NoShareStates:
    """No share coordinator: a broker that serves no share groups."""

    async def initialize(self, partition: SharePartition, *, state_epoch: int, start_offset: int) -> ErrorCode:
        return _REFUSAL

    async def read(self, partition: SharePartition, *, leader_epoch: int) -> ShareState | ErrorCode:
        return _REFUSAL

    async def write(
        self,
        partition: SharePartition,
        batches: Sequence[StateBatch],
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
    ) -> ErrorCode:
        return _REFUSAL

    async def delete(self, partition: SharePartition) -> ErrorCode:
        return _REFUSAL

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        return _REFUSAL


class ShareSurroundings(NamedTuple):
    """The surroundings of share groups."""

    states: ShareStateStore = NoShareStates()
    config_of: ShareConfigOf | None = None
    """The settings of each group; None for those of the coordinator's config."""


NO_SHARE_STATES: Final = ShareSurroundings()
