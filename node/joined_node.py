"""`JoinedNode`: what a broker of several machines has beside its logs, once it is a member (`Joining`): replicas that
it leads and follows, the way to other brokers, and who follows the cluster's image (cluster.md 2.6).

Only joined mode imports this module. Always true: a node that can be a member no longer says why through `lost`, once,
and its heartbeats have ended by then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eosin.broker.joined.forwarding import FORWARDED, Forwarding, decode
from eosin.broker.joined.version_follower import GroupVersionFollower, TransactionVersionFollower
from eosin.broker.partitions import LedLogs
from eosin.broker.transactions.two_phase_replicas import TwoPhaseReplicas
from eosin.client.addresses import Address
from eosin.client.errors import ClientError
from eosin.client.peer import LinkDialer
from eosin.cluster.joined.coordinator_elections import CoordinatorElections
from eosin.cluster.membership.channel import ControllerUnavailable
from eosin.cluster.membership.directory_assignments import DirectoryAssignments
from eosin.cluster.membership.disk_watch import DiskWatch
from eosin.cluster.membership.isr_changes import IsrChanges
from eosin.cluster.membership.rules.ports import MembershipLost
from eosin.cluster.metadata.joined_cluster import JoinedCluster
from eosin.cluster.peers.connections import Peers
from eosin.cluster.peers.listeners import PeerListeners
from eosin.cluster.peers.log_ends import PeerHighWatermarks, PeerLogEnds
from eosin.cluster.peers.remote_appends import RemoteAppends
from eosin.cluster.peers.remote_markers import RemoteBrokers
from eosin.cluster.peers.remote_share_states import RemoteShareCoordinators, ShareStateRoutes
from eosin.cluster.peers.remote_verifier import CoordinatorRoutes, RemoteCoordinators
from eosin.cluster.replication.coordinator_log import ReplicatedCoordinatorLog
from eosin.cluster.replication.directories import directory_of
from eosin.cluster.replication.fetcher_pool import FetcherPool, FollowerConfig
from eosin.cluster.replication.fetcher_task import dial_leader
from eosin.cluster.replication.health import ReplicationHealth
from eosin.cluster.replication.leaderless import LeaderlessPartitions
from eosin.cluster.replication.led_partitions import LedPartitions
from eosin.cluster.replication.replica_directories import ReplicaDirectories
from eosin.cluster.replication.replica_set import ReplicaSet
from eosin.cluster.replication.throttle import FollowerThrottle, LeaderThrottle
from eosin.model.cluster import ClusterListener, Topic
from eosin.node.assembly import OffsetsFollowTopics, Replication
from eosin.node.joining import Joining
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicIdPartition, TopicPartition, Uuid
from eosin.protocol.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from eosin.runtime.background import Background
from eosin.runtime.logging_format import fields

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.coordinator.share_states import ShareStateStore
    from eosin.coordinator.transactions.ports import TransactionVerifier
    from eosin.network.api import Api
    from eosin.runtime.chance import Chance
    from eosin.runtime.loop_watch import LoopWatch
    from eosin.settings.broker import BrokerConfig
    from eosin.storage.manager import LogManager

log = logging.getLogger(__name__)

DISK_CHECK_MS: Final = 500
"""Interval between checks of a replica that must catch up, and of a disk that is full."""
HEALTH_CHECK_MS: Final = 1000
"""Changes of so much time are told in one line."""
STATE_PATIENCE_MS: Final = 1000
"""The time that an answer of a share coordinator may take on its way."""
NOTE_OFFSET_MS: Final = 10_000
"""Time that a guard may be behind."""
PREFERRED_ELECTION: Final = 0
"""Of a partition without a leader it elects any replica that may lead (cluster.md 4.18)."""


class JoinedNode:
    """One broker's part in a cluster of several machines (`ClusterPart`)."""

    confirms_responses: Final = True
    keeps_metadata: Final = False
    unguarded: Final[Collection[int]] = FORWARDED
    decode_request: Final[Callable[..., Any]] = staticmethod(decode)

    def __init__(self, config: "BrokerConfig", joining: Joining, chance: "Chance") -> None:
        """`joining` has started; `config` are the settings that it has returned. `begin` follows in the same step, so
        no image is missed."""
        self.config: Final = config
        self.cluster: Final = joining.cluster
        self.logs: Final = joining.logs
        self._joining = joining
        self._clock = joining.clock
        self._links = joining.links
        self._membership = joining.membership
        self._forwarding = Forwarding(self.cluster, joining.envelopes, controller=joining.heartbeats)
        self._peers = self._new_peers(config.request_timeout_ms)
        self.other_brokers: Final = RemoteBrokers(self._peers)
        self._coordinators = RemoteCoordinators(self.cluster, self._peers)
        self._share_coordinators = RemoteShareCoordinators(self.cluster, self._new_peers(self._state_timeout_ms))
        timeout_ms = config.request_timeout_ms
        self._appends = RemoteAppends(self.cluster, self._new_peers(timeout_ms), timeout_ms=timeout_ms)
        self._isr_changes = self._new_isr_changes()
        self._assignments = self._new_assignments(chance)
        self._noted_offset = -1
        self.led_logs: Final = LedLogs(self._clock)
        image = self.cluster.image
        self._follower_throttle = FollowerThrottle(config.node_id, image)
        self._leader_throttle = LeaderThrottle(config.node_id, image)
        self._pool = self._new_pool()
        self._led = self._new_led_partitions()
        self._replicas = ReplicaSet(
            config.node_id,
            inter_broker_listener=config.inter_broker_listener,
            log_manager=self.logs,
            log_config=self.cluster.log_config,
            pool=self._pool,
            leaderships=self._led,
            handlers=self.led_logs,
            clock=self._clock,
            backoff_ms=config.replica_fetch_backoff_ms,
        )
        self.replication: Final = Replication(
            self._replicas,
            self.cluster.leader_epoch,
            self._led,
            guard=lambda log: ReplicatedCoordinatorLog(log, self._led.has_enough_in_sync),
            has_enough_in_sync=self._led.has_enough_in_sync,
            high_watermarks_elsewhere=PeerHighWatermarks(self.cluster, self._peers).fetch,
            append_elsewhere=self._appends.append,
        )
        self._directories = ReplicaDirectories(
            config.node_id,
            directory_id=self.logs.directory_id,
            replicas=self._replicas,
            assignments=self._assignments,
            copies=self.logs.lost_copies,
            elect=self._elect,
        )
        self._declared_lost: list[asyncio.Future[None]] = []
        """Done when the controller knows which replicas this broker must not lead."""
        self._disk = self._new_disk_watch()
        self._health = ReplicationHealth(
            config.node_id, image, min_in_sync=lambda topic: self.cluster.log_config(topic).min_insync_replicas
        )
        self._leaderless = LeaderlessPartitions(
            config.node_id,
            image,
            directory_id=self.logs.directory_id,
            log=self._replicas.log,
            ends=PeerLogEnds(self._peers),
            clock=self._clock,
        )

    def _new_isr_changes(self) -> IsrChanges:
        return IsrChanges(
            self._joining.new_channel("isr-changes"),
            node_id=self.config.node_id,
            broker_epoch=lambda: self._membership.broker_epoch,
            clock=self._clock,
        )

    def _new_led_partitions(self) -> LedPartitions:
        return LedPartitions(
            self.config.node_id,
            brokers=lambda: self.cluster.image.brokers,
            own_epoch=lambda: self._membership.broker_epoch,
            isr_changes=self._isr_changes,
            progress=self.led_logs.long_polls,
            clock=self._clock,
            max_lag_ms=self.config.replica_lag_time_max_ms,
            throttle=self._leader_throttle,
        )

    def _new_disk_watch(self) -> DiskWatch:
        return DiskWatch(
            self.logs,
            self._membership,
            declare_lost=self._directories.log_failed,
            max_failures=self.config.eosin_log_failures_max,
            full_fence_ms=self.config.eosin_disk_full_fence_ms,
            report_timeout_ms=self.config.log_dir_failure_timeout_ms,
            clock=self._clock,
        )

    def _new_pool(self) -> FetcherPool:
        config = self.config
        return FetcherPool(
            config.node_id,
            FollowerConfig(
                num_replica_fetchers=config.num_replica_fetchers,
                replica_fetch_wait_max_ms=config.replica_fetch_wait_max_ms,
                replica_fetch_min_bytes=config.replica_fetch_min_bytes,
                replica_fetch_response_max_bytes=config.replica_fetch_response_max_bytes,
                replica_fetch_max_bytes=config.replica_fetch_max_bytes,
                replica_fetch_backoff_ms=config.replica_fetch_backoff_ms,
                replica_sync_patience_ms=config.eosin_replica_sync_patience_ms,
            ),
            broker=self,
            dial=partial(dial_leader, security=self._links.brokers),
            clock=self._clock,
            throttle=self._follower_throttle,
        )

    def _new_assignments(self, chance: "Chance") -> DirectoryAssignments:
        return DirectoryAssignments(
            self._joining.new_channel("directories"),
            node_id=self.config.node_id,
            broker_epoch=lambda: self._membership.broker_epoch,
            is_wanted=self._is_elsewhere,
            clock=self._clock,
            chance=chance,
        )

    def _is_elsewhere(self, partition: TopicIdPartition, directory_id: Uuid) -> bool:
        """True if the image has a replica of this broker in another directory than that one."""
        topic = self.cluster.image.topic_by_id(partition.topic_id)
        registration = None if topic is None else topic.partitions.get(partition.partition)
        if registration is None or self.config.node_id not in registration.replicas:
            return False
        return directory_of(registration, self.config.node_id) != directory_id

    @property
    def broker_epoch(self) -> int:
        """The epoch that other brokers know this one's fetches by."""
        return self._membership.broker_epoch

    @property
    def metadata_version(self) -> int:
        """The cluster's finalized level of metadata.version."""
        return self.cluster.image.metadata_version

    def _address_of(self, node_id: int) -> Address | None:
        """The address at which another broker is reached."""
        endpoint = self.cluster.inter_broker_endpoint(node_id)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def _new_peers(self, request_timeout_ms: int) -> Peers:
        return Peers(
            address=self._address_of,
            dial=LinkDialer(f"broker-{self.config.node_id}", self._links.brokers),
            request_timeout_ms=request_timeout_ms,
        )

    @property
    def _state_timeout_ms(self) -> int:
        """A share coordinator answers within the time that it may take to write; later nobody waits for it."""
        return min(self.config.request_timeout_ms, self.config.share_coordinator_write_timeout_ms + STATE_PATIENCE_MS)

    def verifier(self, transactions: "TransactionVerifier") -> CoordinatorRoutes:
        """Every coordinator of the cluster: this broker's own is `transactions`."""
        return CoordinatorRoutes(self._coordinators, local=transactions)

    def state_routes(self, local: "Callable[[], ShareStateStore]") -> ShareStateRoutes:
        """Every share coordinator of the cluster: this broker's own is `local`."""
        return ShareStateRoutes(self._share_coordinators, local)

    def apis(self, apis: "Mapping[int, Api]") -> "Mapping[int, Api]":
        """These APIs, but for those that the controller decides."""
        return self._forwarding.apis(apis)

    def begin(self, services: "Services") -> None:
        """Lead and follow what the metadata give to this broker, from the image of now on. Raises OSError."""
        image = self.cluster.image
        self._replicas.begin(image)
        self._declared_lost = self._directories.begin(image)
        self._disk.begin()
        self._subscribe(services)

    def _subscribe(self, services: "Services") -> None:
        """Tell whoever follows the cluster of each change. All of them are listed here, in the order of their calls:
        of the image first, then of what clients see of it."""
        cluster, transactions = self.cluster, services.transactions
        elections = _elections(services, cluster)
        listeners = PeerListeners(self.config.node_id, self.config.inter_broker_listener, cluster.image)
        cluster.on_image += [
            self._follower_throttle.apply,
            self._leader_throttle.apply,
            self._replicas.apply,
            self._directories.apply,
            self.other_brokers.apply,
            self._coordinators.apply,
            self._share_coordinators.apply,
            self._appends.apply,
            self._peers.apply,
            listeners.apply,
            self._health.apply,
            self._leaderless.apply,
        ]
        if self.config.transaction_two_phase_commit_enable:
            cluster.on_image.append(TwoPhaseReplicas(transactions, cluster.image).apply)
        for listener in (
            services.partitions,
            _LedPartitionsFollow(self._led, self.logs),
            TransactionVersionFollower(transactions, cluster),
            GroupVersionFollower(services.groups, cluster),
            *elections,
            OffsetsFollowTopics(services.groups),
            services.metadata_responses,
            services.sharing,
        ):
            cluster.subscribe(listener)
        self._replicas.on_led_late += [each.led_late for each in elections]

    def schedule(self, background: Background, watch: "LoopWatch") -> None:
        """Begin what is done again and again."""
        # Whoever stood still so long would take all followers for slow: what they have sent is in the sockets, or they
        # stood still as well, as a whole cluster of virtual machines does. They have an interval to be heard.
        background.every(
            self._led.check_interval_ms,
            "the search for replicas that lag",
            self._led.check_for_lag,
            latest_ms=self.config.replica_lag_time_max_ms,
        )
        background.every(DISK_CHECK_MS, "the look at replicas in other directories", self._directories.check)
        background.every(DISK_CHECK_MS, "the look at a full disk", self._disk.check)
        background.every(HEALTH_CHECK_MS, "the look at partitions in danger", self._check_danger)
        watch.begin(background, may_rest=False)  # replicas wait for it, not only clients
        if not self._links.are_plain and self.config.eosin_ssl_reload_interval_ms > 0:
            interval_ms = self.config.eosin_ssl_reload_interval_ms
            background.every(interval_ms, "the look for changed certificates of links", self._links.refresh)
        background.every(NOTE_OFFSET_MS, "the note of the metadata's offset", self._note_offset)

    async def _check_danger(self) -> None:
        """Log what partitions lack."""
        self._health.log_counts()
        await self._leaderless.check()

    async def unfence(self) -> None:
        """Everything is set up: become a broker that leads and that clients see, once the controller knows what it must
        not lead. Raises StartError."""
        if self._declared_lost:
            await self._joining.or_lost(_all_done(self._declared_lost))
        self._membership.want_fence(False)
        await self._joining.or_lost(self._membership.unfenced())

    async def lost(self, stop: asyncio.Event) -> str | None:
        """Wait for `stop`, or for the end of the membership that nobody asked for: one sentence says why."""
        failed, following = self._disk.failed, self._joining.following
        stopping = asyncio.ensure_future(stop.wait())
        ending = asyncio.ensure_future(self._membership.lost())
        await asyncio.wait((stopping, ending, failed, following), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        ending.cancel()
        if following.done():
            await self._fenced()
            return self._joining.why_lost()
        if failed.done():
            return failed.result()
        return ending.result() if ending.done() and not ending.cancelled() else None

    async def _fenced(self) -> None:
        """This broker's image of the cluster stays out of date: have the controller fence it, if it can hear
        that within a session (cluster.md 1.8)."""
        self._membership.want_fence(True)
        with contextlib.suppress(TimeoutError, MembershipLost):
            async with asyncio.timeout(self.config.broker_session_timeout_ms / 1000):
                await self._membership.fenced()

    async def _note_offset(self) -> None:
        """So that the next start does not join controllers that have lost what this one has seen (cluster.md 3.7)."""
        offset = self._joining.follower.published_offset
        if offset > self._noted_offset:
            await self.logs.save_metadata_offset(offset)
            self._noted_offset = offset

    async def _elect(self, partition: TopicPartition) -> None:
        """Ask for an election of a partition that nobody leads; the next one that unfences a broker does as well."""
        request = ElectLeadersRequest(
            election_type=PREFERRED_ELECTION,
            topic_partitions=(TopicPartitions(partition.topic, (partition.partition,)),),
            timeout_ms=self.config.request_timeout_ms,
        )
        try:
            await self._joining.channel.request(
                ApiKey.ELECT_LEADERS, request, timeout_ms=self.config.request_timeout_ms
            )
        except (ControllerUnavailable, ClientError) as error:
            log.warning("no election could be asked for: %s", error, extra=fields(partition=str(partition)))

    async def leave(self) -> None:
        """Let other brokers take over what this one leads (cluster.md 2.8), as far as there is a controller to ask."""
        self._replicas.leave()
        with contextlib.suppress(OSError):
            await self._note_offset()
        await self._membership.controlled_shutdown()

    async def close(self) -> None:
        """Send nothing more."""
        await self._membership.close()
        await self._coordinators.close()
        await self._share_coordinators.close()
        await self._appends.close()
        await self.other_brokers.close()
        await self._peers.close()
        await self._isr_changes.close()
        await self._disk.close()
        await self._directories.close()
        await self._assignments.close()
        self.logs.stop_waiting_for_room()  # a log that is to be cut on a full disk
        await self._pool.close()
        await self._joining.hang_up()


class _LedPartitionsFollow(ClusterListener):
    """Lets what is led follow the brokers and the topics' settings."""

    def __init__(self, led: LedPartitions, logs: "LogManager") -> None:
        self._led = led
        self._logs = logs

    def configs_changed(self, topic: Topic) -> None:
        """`min.insync.replicas` may be another. The logs have their new settings already."""
        for each in self._logs.logs_of(topic.name):
            self._led.settings_changed(each)

    def brokers_changed(self) -> None:
        """Positions may be void, and replicas eligible."""
        self._led.brokers_changed()


def _elections(services: "Services", cluster: JoinedCluster) -> tuple[CoordinatorElections, CoordinatorElections]:
    """Let this broker's coordinators follow who leads the partitions of the internal topics."""
    groups, transactions = services.groups, services.transactions
    return (
        CoordinatorElections(
            CONSUMER_OFFSETS_TOPIC,
            node_id=cluster.node_id,
            elect=lambda partition: groups.elect(partition, lambda: cluster.topics),
            resign=groups.resign,
        ),
        CoordinatorElections(
            TRANSACTION_STATE_TOPIC,
            node_id=cluster.node_id,
            elect=transactions.elect,
            resign=transactions.resign,
        ),
    )


async def _all_done(futures: "Sequence[asyncio.Future[None]]") -> None:
    await asyncio.gather(*futures)
