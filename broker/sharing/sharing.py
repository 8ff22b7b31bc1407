"""`Sharing`: what this broker does for share groups as the leader of partitions (KIP-932)."""

from typing import TYPE_CHECKING, Final

from eosin.broker.sharing.config import ShareConfigOf
from eosin.broker.sharing.share_partitions import SharePartitions
from eosin.broker.sharing.share_sessions import ShareSessions
from eosin.model.cluster import ClusterListener
from eosin.model.features import SHARE_VERSION
from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.coordinator.share_state.ports import ShareStateStore
    from eosin.model.cluster import Cluster


class Sharing(ClusterListener):
    """Its share partitions and share sessions."""

    def __init__(
        self,
        *,
        cluster: "Cluster",
        store: "ShareStateStore",
        config_of: ShareConfigOf,
        clock: Clock,
        max_partitions: int,
        max_sessions: int,
    ) -> None:
        self.partitions: Final = SharePartitions(
            cluster=cluster, store=store, config_of=config_of, clock=clock, max_partitions=max_partitions
        )
        self.sessions: Final = ShareSessions(self.partitions, max_sessions=max_sessions)
        self.is_stopping = False
        """True if fetches wait no more."""
        self._cluster = cluster

    @property
    def listeners(self) -> tuple[ClusterListener, ...]:
        """Those who follow the cluster, in the order in which they are told."""
        return self, self.partitions

    @property
    def is_served(self) -> bool:
        """True if share groups are served (share.version)."""
        return self._cluster.features.level(SHARE_VERSION) > 0

    def features_changed(self) -> None:
        """Without the feature there are no sessions."""
        if not self.is_served:
            self.sessions.end_all()

    def stop_waiting(self) -> None:
        """Answer the fetches that wait: the broker stops."""
        self.is_stopping = True
        for each in self.partitions:
            each.wake()

    async def stop(self) -> None:
        """End all that is under way."""
        await self.partitions.stop()
