"""`QuotaSwitch`: puts the enforcement of quotas in the way of requests while any quota is set, and out of it again.

Always true: a broker without quotas loads none of this, and asks nothing more for each request than it does without.
"""

from typing import TYPE_CHECKING

from eosin.model.quota_table import QuotaKey
from eosin.network.request_hooks import HookChain, RequestHooks

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster
    from eosin.network.host import ConnectionHost
    from eosin.network.quotas.enforcement import DropsSessions, QuotaEnforcement
    from eosin.settings.broker import BrokerConfig


class QuotaSwitch:
    """Follows the quotas of a cluster."""

    def __init__(
        self,
        host: "ConnectionHost",
        config: "BrokerConfig",
        cluster: "Cluster",
        sessions: "DropsSessions",
        topics: "Cluster | None",
    ) -> None:
        """`sessions`: the fetch sessions, of which one that is held back too long is dropped. `topics`: where changes
        of topics are counted; None where controllers count them."""
        self._host = host
        self._topics = topics
        self._config = config
        self._cluster = cluster
        self._sessions = sessions
        self._others: RequestHooks | None = host.hooks
        self._enforcement: QuotaEnforcement | None = None
        """Kept while no quota is set, too: what was used is not forgotten."""
        quotas = cluster.quotas
        quotas.on_change.append(self._turn)
        if quotas:
            self._turn()

    def _turn(self) -> None:
        others, quotas = self._others, self._cluster.quotas
        if not quotas:
            self._host.hooks, self._host.connection_delay_ms = others, None
            return
        enforcement = self._enforcement
        if enforcement is None:
            enforcement = self._enforcement = self._new()
        self._host.hooks = enforcement if others is None else HookChain((enforcement, others))
        limits_connections = quotas.limits(QuotaKey.CONNECTION_CREATION_RATE)
        self._host.connection_delay_ms = enforcement.connection_delay_ms if limits_connections else None

    def _new(self) -> "QuotaEnforcement":
        from eosin.network.quotas.enforcement import QuotaEnforcement, QuotaSettings

        config = self._config
        return QuotaEnforcement(
            self._cluster.quotas,
            self._host.clock,
            self._sessions,
            self._topics,
            QuotaSettings(
                window_num=config.quota_window_num,
                sample_ms=config.quota_window_size_seconds * 1000,
                throttle_max_ms=config.eosin_quota_throttle_max_ms,
                default_partitions=config.num_partitions,
            ),
        )
