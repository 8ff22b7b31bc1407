"""`Sharing`: what this broker does for share groups as the leader of partitions (KIP-932).

Nothing of it is imported or made before somebody fetches for a share group: a broker without them pays nothing.
"""

from functools import partial
from typing import TYPE_CHECKING

from eosin.coordinator.groups.rules.config import ShareConfigOf
from eosin.model.cluster import ClusterListener, PartitionState
from eosin.model.features import SHARE_VERSION
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock
from eosin.settings.groups import DEAD_LETTER_CREATION, DEAD_LETTER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from eosin.broker.fetching.long_poll import LongPolls
    from eosin.broker.sharing.dead_letters import AppendElsewhere, HasEnoughInSync
    from eosin.broker.sharing.share_partitions import SharePartitions
    from eosin.broker.sharing.share_sessions import ShareSessions
    from eosin.coordinator.share_states import ShareStateStore
    from eosin.model.cluster import Cluster
    from eosin.protocol.errors import ErrorCode
    from eosin.settings.broker import BrokerConfig
    from eosin.storage.log.partition_log import PartitionLog


class Sharing(ClusterListener):
    """Its share partitions and share sessions."""

    def __init__(
        self,
        *,
        cluster: "Cluster",
        log_of: "Callable[[TopicPartition], PartitionLog | ErrorCode]",
        long_polls: "LongPolls",
        store: "ShareStateStore",
        config_of: ShareConfigOf,
        clock: Clock,
        config: "BrokerConfig",
        append_elsewhere: "AppendElsewhere | None" = None,
        has_enough_in_sync: "HasEnoughInSync | None" = None,
    ) -> None:
        """`append_elsewhere` writes dead letters to partitions that other brokers lead; None where there are none.
        `has_enough_in_sync` says which of those that this broker leads may take them; None: all."""
        self._append_elsewhere = append_elsewhere
        self._has_enough_in_sync = has_enough_in_sync
        self.config_of = config_of
        self.is_stopping = False
        """True if fetches wait no more."""
        self._cluster = cluster
        self._log_of = log_of
        self._long_polls = long_polls
        self._store = store
        self._clock = clock
        self._config = config
        self._partitions: SharePartitions | None = None
        self._sessions: ShareSessions | None = None

    @property
    def is_served(self) -> bool:
        """True if share groups are served (share.version)."""
        return self._cluster.features.level(SHARE_VERSION) > 0

    @property
    def running(self) -> "SharePartitions | None":
        """The share partitions, if anybody has fetched from one yet."""
        return self._partitions

    @property
    def partitions(self) -> "SharePartitions":
        """The share partitions."""
        if self._partitions is None:
            from eosin.broker.sharing.counts import ShareCounts
            from eosin.broker.sharing.dead_letters import DeadLetters
            from eosin.broker.sharing.share_partitions import SharePartitions
            from eosin.cluster.metadata.live_settings import live_setting

            config, counts = self._config, ShareCounts()
            letters = DeadLetters(
                cluster=self._cluster,
                log_of=self._log_of,
                clock=self._clock,
                prefix=partial(live_setting, DEAD_LETTER_PREFIX, self._cluster, config),
                creates_topics=partial(live_setting, DEAD_LETTER_CREATION, self._cluster, config),
                counts=counts,
                append_elsewhere=self._append_elsewhere,
                has_enough_in_sync=self._has_enough_in_sync,
            )
            self._partitions = SharePartitions(
                store=self._store,
                config_of=self.config_of,
                clock=self._clock,
                counts=counts,
                letters=letters,
                long_polls=self._long_polls,
                max_partitions=config.eosin_share_max_partitions,
            )
        return self._partitions

    @property
    def sessions(self) -> "ShareSessions":
        """The share sessions."""
        if self._sessions is None:
            from eosin.broker.sharing.share_sessions import ShareSessions

            most = self._config.group_share_max_share_sessions
            self._sessions = ShareSessions(self.partitions, clock=self._clock, max_sessions=most)
        return self._sessions

    @property
    def session_count(self) -> int:
        """Number of share sessions."""
        return 0 if self._sessions is None else len(self._sessions)

    def elapsed_ms(self) -> int:
        """The time by the clock of share partitions."""
        return self._clock.elapsed_ms()

    def stop_waiting(self) -> None:
        """Answer the fetches that wait: the broker stops."""
        self.is_stopping = True
        for each in self._partitions or ():
            each.wake()

    async def stop(self) -> None:
        """End all that is under way."""
        if self._partitions is not None:
            await self._partitions.stop()

    # The cluster's changes ------------------------------------------------------------------------------------------

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """End share partitions that this broker leads no more, and those of an earlier topic of that name: their
        members' records go with them."""
        if self._partitions is not None:
            leads = after is not None and after.leader_id == self._cluster.node_id
            topic = None if after is None else self._cluster.topics.get(partition.topic)
            topic_id = None if topic is None else topic.topic_id
            self._partitions.changed(partition, after if leads else None, topic_id)

    def features_changed(self) -> None:
        """Without the feature there are neither sessions nor share partitions (share-partitions.md 2.8)."""
        if not self.is_served and self._sessions is not None:
            self._sessions.end_all()
            self.partitions.lose_all()
