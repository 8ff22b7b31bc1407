"""`JoinedNode`: what a broker of several machines has beside its logs: the metadata follower, the channels to the
controller, the membership, and the cluster that they show (cluster.md 2.6).

Only joined mode imports this module. Always true: the cluster that `start` returns shows a published image; a node
that can be a member no longer says why through `lost`, once, and its heartbeats have ended by then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eosin.broker.joined.forwarding import FORWARDED, Forwarding, decode
from eosin.broker.joined.version_follower import TransactionVersionFollower
from eosin.broker.transactions.two_phase_replicas import TwoPhaseReplicas
from eosin.client.addresses import Address
from eosin.client.errors import ClientError
from eosin.client.peer import LinkDialer
from eosin.cluster.joined.coordinator_elections import CoordinatorElections
from eosin.cluster.membership.channel import ControllerChannel, ControllerUnavailable
from eosin.cluster.membership.directory_assignments import DirectoryAssignments
from eosin.cluster.membership.disk_watch import DiskWatch
from eosin.cluster.membership.envelopes import Envelopes
from eosin.cluster.membership.ignored_acls import check_acls
from eosin.cluster.membership.isr_changes import IsrChanges, TopicIdPartition
from eosin.cluster.membership.lifecycle import Membership
from eosin.cluster.membership.rules.ports import MembershipLost
from eosin.cluster.membership.rules.registration import AdvertisedListener, BrokerIdentity
from eosin.cluster.membership.rules.states import Limits
from eosin.cluster.metadata.joined_cluster import JoinedCluster
from eosin.cluster.peers.connections import Peers
from eosin.cluster.peers.links import PLAIN_LINKS, Links
from eosin.cluster.peers.listeners import PeerListeners
from eosin.cluster.peers.log_ends import PeerLogEnds
from eosin.cluster.peers.remote_markers import RemoteBrokers
from eosin.cluster.peers.remote_verifier import CoordinatorRoutes
from eosin.cluster.quorum.follower import MetadataFollower
from eosin.cluster.quorum.observer import ObserverConfig
from eosin.cluster.quorum.rules.errors import QuorumError
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
from eosin.model.features import SUPPORTED_JOINED, TRANSACTION_VERSION
from eosin.node.assembly import OffsetsFollowTopics, Replication
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition, Uuid
from eosin.protocol.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from eosin.runtime.background import Background
from eosin.runtime.logging_format import fields
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.broker.partitions import LedLogs
    from eosin.broker.services import Services
    from eosin.coordinator.transactions.ports import TransactionVerifier
    from eosin.network.api import Api
    from eosin.runtime.chance import Chance
    from eosin.runtime.clock import Clock
    from eosin.runtime.loop_watch import LoopWatch
    from eosin.settings.broker import BrokerConfig
    from eosin.settings.listeners import Listener
    from eosin.storage.manager import LogManager

log = logging.getLogger(__name__)

DISK_LOOK_MS: Final = 500
"""How often a replica that must catch up, and a disk that is full, are looked at."""
HEALTH_LOOK_MS: Final = 1000
"""Changes of so much time are told in one line."""
NOTE_OFFSET_MS: Final = 10_000
"""How far a guard may be behind."""
SEEN_LOOK_MS: Final = 20
PREFERRED_ELECTION: Final = 0
"""Of a partition without a leader it elects any replica that may lead (cluster.md 4.18)."""


class JoinedNode:
    """One broker's part in a cluster of several machines (`ClusterPart`)."""

    confirms_answers: Final = True
    keeps_metadata: Final = False
    unguarded: Final[Collection[int]] = FORWARDED
    decode_request: Final[Callable[..., Any]] = staticmethod(decode)

    def __init__(
        self,
        config: "BrokerConfig",
        *,
        listeners: "Sequence[Listener]",
        logs: "LogManager",
        clock: "Clock",
        chance: "Chance",
        links: Links = PLAIN_LINKS,
    ) -> None:
        """`listeners` are this broker's as others are told them; `logs` is open; `links` are how it reaches others."""
        self._config = config
        self._links = links
        self._logs = logs
        self._clock = clock
        self._pool: FetcherPool | None = None
        self._led: LedPartitions | None = None
        self._throttles: tuple[FollowerThrottle, LeaderThrottle] | None = None
        self._replicas: ReplicaSet | None = None
        self._directories: ReplicaDirectories | None = None
        self._declared_lost: list[asyncio.Future[None]] = []
        """Done when the controller knows which replicas this broker must not lead."""
        self._disk: DiskWatch | None = None
        self._health: ReplicationHealth | None = None
        self._leaderless: LeaderlessPartitions | None = None
        self._noted_offset = -1
        self._following: asyncio.Task[None] | None = None
        self._follower = MetadataFollower(
            _observer_config(config, logs),
            clock=clock,
            dial=LinkDialer(f"broker-{config.node_id}-metadata", links.controllers),
            supported=SUPPORTED_JOINED,
        )
        self._envelopes = Envelopes(lambda: self._new_channel("forwarding"), clock)
        self._channel = self._new_channel("own")
        heartbeat = self._new_channel("heartbeat", socket_timeout_ms=config.broker_heartbeat_interval_ms)
        self._membership = Membership(
            _identity(config, listeners, logs, chance),
            _limits(config, logs),
            channel=heartbeat,
            metadata=self._follower,
            save_epoch=logs.save_broker_epoch,
            clock=clock,
        )
        self.cluster = JoinedCluster(
            config=config,
            cluster_id=logs.cluster_id,
            channel=self._channel,
            envelopes=self._envelopes,
            find_leader=lambda: self._follower.leader,
            own_epoch=lambda: self._membership.broker_epoch,
            controller_levels=lambda: heartbeat.features,
        )
        for listener in listeners:
            self.cluster.advertise(listener.name, listener.host, listener.port)
        self._follower.on_publication.append(self.cluster.publish_in_steps)
        self._forwarding = Forwarding(self.cluster, self._envelopes, controller=heartbeat)
        self._peers = self._new_peers()
        self.other_brokers = RemoteBrokers(self._peers)
        self._coordinators: CoordinatorRoutes | None = None
        self._isr_changes = IsrChanges(
            self._new_channel("isr-changes"),
            node_id=config.node_id,
            broker_epoch=lambda: self._membership.broker_epoch,
            clock=clock,
        )
        self._assignments = self._new_assignments(chance)

    def _new_assignments(self, chance: "Chance") -> DirectoryAssignments:
        return DirectoryAssignments(
            self._new_channel("directories"),
            node_id=self._config.node_id,
            broker_epoch=lambda: self._membership.broker_epoch,
            is_wanted=self._is_elsewhere,
            clock=self._clock,
            chance=chance,
        )

    def _is_elsewhere(self, partition: TopicIdPartition, directory_id: Uuid) -> bool:
        """Whether the image has a replica of this broker in another directory than that one."""
        topic = self.cluster.image.topic_by_id(partition.topic_id)
        registration = None if topic is None else topic.partitions.get(partition.partition)
        if registration is None or self._config.node_id not in registration.replicas:
            return False
        return directory_of(registration, self._config.node_id) != directory_id

    @property
    def broker_epoch(self) -> int:
        """The epoch that other brokers know this one's fetches by."""
        return self._membership.broker_epoch

    @property
    def metadata_version(self) -> int:
        """The cluster's finalized level of metadata.version."""
        return self.cluster.image.metadata_version

    def _address_of(self, node_id: int) -> Address | None:
        """Where another broker is reached."""
        endpoint = self.cluster.inter_broker_endpoint(node_id)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def _new_peers(self) -> Peers:
        return Peers(
            address=self._address_of,
            dial=LinkDialer(f"broker-{self._config.node_id}", self._links.brokers),
            request_timeout_ms=self._config.request_timeout_ms,
        )

    def _new_channel(self, purpose: str, *, socket_timeout_ms: int | None = None) -> ControllerChannel:
        return ControllerChannel(
            lambda: self._follower.leader,
            clock=self._clock,
            client_id=f"broker-{self._config.node_id}-{purpose}",
            socket_timeout_ms=socket_timeout_ms or self._config.controller_socket_timeout_ms,
            security=self._links.controllers,
            why_unknown=lambda: self._follower.why_unknown,
        )

    async def start(self) -> "BrokerConfig":
        """Register, and wait for the metadata; the settings with what the cluster's features decide. Raises
        StartError."""
        self._following = asyncio.get_running_loop().create_task(self._follower.run())
        await self._or_lost(self._membership.start())
        await self._or_lost(self._membership.caught_up())
        await self._or_lost(self._has_seen(self._logs.metadata_offset))
        check_acls(self._config, self.cluster.image)
        log.info(
            "this broker is registered, and fenced until it is set up",
            extra=fields(node=self._config.node_id, epoch=self._membership.broker_epoch),
        )
        # What DescribeConfigs shows: the setting has no say here.
        return replace(self._config, eosin_transaction_version=self.cluster.features.level(TRANSACTION_VERSION))

    async def _has_seen(self, offset: int) -> None:
        """Wait until the metadata are there as far as this broker has known them: with less it would set aside
        partitions that are its own (cluster.md 3.7)."""
        while self._follower.published_offset < offset:
            await self._clock.sleep(SEEN_LOOK_MS)

    def hold(self, led_logs: "LedLogs") -> Replication:
        """Make the replicas. `begin` follows in the same step, so no image is missed."""
        config = self._config
        throttle = FollowerThrottle(config.node_id, self.cluster.image)
        leader_throttle = LeaderThrottle(config.node_id, self.cluster.image)
        self._throttles = throttle, leader_throttle
        self._pool = FetcherPool(
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
            throttle=throttle,
        )
        led = self._led = LedPartitions(
            config.node_id,
            brokers=lambda: self.cluster.image.brokers,
            own_epoch=lambda: self._membership.broker_epoch,
            isr_changes=self._isr_changes,
            appended=led_logs.long_polls.progress,
            clock=self._clock,
            max_lag_ms=config.replica_lag_time_max_ms,
            throttle=leader_throttle,
        )
        self._replicas = ReplicaSet(
            config.node_id,
            inter_broker_listener=config.inter_broker_listener,
            log_manager=self._logs,
            log_config=self.cluster.log_config,
            pool=self._pool,
            leaderships=led,
            handlers=led_logs,
            clock=self._clock,
            backoff_ms=config.replica_fetch_backoff_ms,
        )
        self._directories = ReplicaDirectories(
            config.node_id,
            directory_id=self._logs.directory_id,
            replicas=self._replicas,
            assignments=self._assignments,
            copies=self._logs.lost_copies,
            elect=self._elect,
        )
        return Replication(
            self._replicas,
            self.cluster.leader_epoch,
            led,
            guard=lambda log: ReplicatedCoordinatorLog(log, led.has_enough_in_sync),
            has_enough_in_sync=led.has_enough_in_sync,
        )

    def verifier(self, transactions: "TransactionVerifier") -> CoordinatorRoutes:
        """Every coordinator of the cluster: this broker's own is `transactions`."""
        self._coordinators = CoordinatorRoutes(self.cluster, local=transactions, peers=self._peers)
        return self._coordinators

    def apis(self, apis: "Mapping[int, Api]") -> "Mapping[int, Api]":
        """These APIs, but for those that the controller decides."""
        return self._forwarding.apis(apis)

    def begin(self, services: "Services") -> None:
        """Lead and follow what the metadata give to this broker, from the image of now on. Raises OSError."""
        cluster, replicas, directories = self.cluster, self._replicas, self._directories
        assert replicas is not None, "replicas are held before anything begins"
        assert directories is not None
        replicas.begin(cluster.image)
        self._declared_lost = directories.begin(cluster.image)
        self._disk = DiskWatch(
            self._logs,
            self._membership,
            declare_lost=directories.log_failed,
            max_failures=self._config.eosin_log_failures_max,
            full_fence_ms=self._config.eosin_disk_full_fence_ms,
            report_timeout_ms=self._config.log_dir_failure_timeout_ms,
            clock=self._clock,
        )
        self._subscribe(services, replicas, directories)

    def _subscribe(self, services: "Services", replicas: ReplicaSet, directories: ReplicaDirectories) -> None:
        """Tell whoever follows the cluster of each change. All of them are listed here, in the order of their calls:
        of the image first, then of what clients see of it."""
        cluster, led, coordinators = self.cluster, self._led, self._coordinators
        assert led is not None
        assert coordinators is not None, "the verifier is made before anything begins"
        assert self._throttles is not None
        follower_throttle, leader_throttle = self._throttles
        transactions = services.transactions
        elections = _elections(services, cluster)
        listeners = PeerListeners(self._config.node_id, self._config.inter_broker_listener, cluster.image)
        self._health = ReplicationHealth(
            self._config.node_id,
            cluster.image,
            min_in_sync=lambda topic: cluster.log_config(topic).min_insync_replicas,
        )
        self._leaderless = LeaderlessPartitions(
            self._config.node_id,
            cluster.image,
            directory_id=self._logs.directory_id,
            log=replicas.log,
            ends=PeerLogEnds(self._peers),
            clock=self._clock,
        )
        cluster.on_image += [
            follower_throttle.apply,
            leader_throttle.apply,
            replicas.apply,
            directories.apply,
            self.other_brokers.apply,
            coordinators.apply,
            self._peers.apply,
            listeners.apply,
            self._health.apply,
            self._leaderless.apply,
        ]
        if self._config.transaction_two_phase_commit_enable:
            cluster.on_image.append(TwoPhaseReplicas(transactions, cluster.image).apply)
        for listener in (
            services.partitions,
            _LedPartitionsFollow(led, self._logs),
            TransactionVersionFollower(transactions, cluster),
            *elections,
            OffsetsFollowTopics(services.groups),
            services.metadata_answers,
        ):
            cluster.subscribe(listener)
        replicas.on_led_late += [each.led_late for each in elections]

    def schedule(self, background: Background, watch: "LoopWatch") -> None:
        """Begin what is done again and again."""
        assert self._led is not None
        assert self._directories is not None
        assert self._disk is not None
        background.every(self._led.look_interval_ms, "the search for replicas that lag", self._led.look_for_lag)
        background.every(DISK_LOOK_MS, "the look at replicas in other directories", self._directories.look)
        background.every(DISK_LOOK_MS, "the look at a full disk", self._disk.look)
        background.every(HEALTH_LOOK_MS, "the look at partitions in danger", self._look_at_danger)
        watch.begin(background)
        if not self._links.are_plain and self._config.eosin_ssl_reload_interval_ms > 0:
            interval_ms = self._config.eosin_ssl_reload_interval_ms
            background.every(interval_ms, "the look for changed certificates of links", self._links.look)
        background.every(NOTE_OFFSET_MS, "the note of the metadata's offset", self._note_offset)

    async def _look_at_danger(self) -> None:
        """Log what partitions lack."""
        assert self._health is not None
        assert self._leaderless is not None
        self._health.tell()
        await self._leaderless.look()

    async def unfence(self) -> None:
        """Everything is set up: become a broker that leads and that clients see, once the controller knows what it must
        not lead. Raises StartError."""
        if self._declared_lost:
            await self._or_lost(_all_done(self._declared_lost))
        self._membership.want_fence(False)
        await self._or_lost(self._membership.unfenced())

    async def lost(self, stop: asyncio.Event) -> str | None:
        """Wait for `stop`, or for the end of the membership that nobody asked for: one sentence says why."""
        assert self._following is not None
        assert self._disk is not None
        failed = self._disk.failed
        stopping = asyncio.ensure_future(stop.wait())
        ending = asyncio.ensure_future(self._membership.lost())
        await asyncio.wait((stopping, ending, failed, self._following), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        ending.cancel()
        if self._following.done():
            await self._fenced()
            return _sentence(self._following)
        if failed.done():
            return failed.result()
        return ending.result() if ending.done() and not ending.cancelled() else None

    async def _fenced(self) -> None:
        """What this broker knows of the cluster is out of date for good: have the controller fence it, if it can hear
        that within a session (cluster.md 1.8)."""
        self._membership.want_fence(True)
        with contextlib.suppress(TimeoutError, MembershipLost):
            async with asyncio.timeout(self._config.broker_session_timeout_ms / 1000):
                await self._membership.fenced()

    async def _note_offset(self) -> None:
        """So that the next start does not join controllers that have lost what this one has seen (cluster.md 3.7)."""
        offset = self._follower.published_offset
        if offset > self._noted_offset:
            await self._logs.save_metadata_offset(offset)
            self._noted_offset = offset

    async def _elect(self, partition: TopicPartition) -> None:
        """Ask for an election of a partition that nobody leads; the next one that unfences a broker does as well."""
        request = ElectLeadersRequest(
            election_type=PREFERRED_ELECTION,
            topic_partitions=(TopicPartitions(partition.topic, (partition.partition,)),),
            timeout_ms=self._config.request_timeout_ms,
        )
        try:
            await self._channel.request(ApiKey.ELECT_LEADERS, request, timeout_ms=self._config.request_timeout_ms)
        except (ControllerUnavailable, ClientError) as error:
            log.warning("no election could be asked for: %s", error, extra=fields(partition=str(partition)))

    async def leave(self) -> None:
        """Let other brokers take over what this one leads (cluster.md 2.8), as far as there is a controller to ask."""
        if self._replicas is not None:
            self._replicas.leave()
        with contextlib.suppress(OSError):
            await self._note_offset()
        await self._membership.controlled_shutdown()

    async def close(self) -> None:
        """Send nothing more."""
        await self._membership.close()
        if self._coordinators is not None:
            await self._coordinators.close()
        await self.other_brokers.close()
        await self._peers.close()
        await self._isr_changes.close()
        if self._disk is not None:
            await self._disk.close()
        if self._directories is not None:
            await self._directories.close()
        await self._assignments.close()
        if self._pool is not None:
            self._logs.stop_waiting_for_room()  # a log that is to be cut on a full disk
            await self._pool.close()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._channel.close()
        await self._envelopes.close()

    async def _or_lost(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for `work`, unless the metadata cannot be followed. Raises StartError."""
        assert self._following is not None
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait((working, self._following), return_when=asyncio.FIRST_COMPLETED)
            if self._following.done():
                raise StartError(_sentence(self._following))
            await working
        except MembershipLost as refused:
            raise StartError(str(refused)) from refused
        finally:
            working.cancel()


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


def _sentence(following: "asyncio.Task[None]") -> str:
    """Why the metadata are followed no longer."""
    error = following.exception()
    if isinstance(error, QuorumError):
        return str(error)
    assert error is not None, "the metadata are followed until the broker ends"
    raise error


def _observer_config(config: "BrokerConfig", logs: "LogManager") -> ObserverConfig:
    return ObserverConfig(
        cluster_id=logs.cluster_id,
        node_id=config.node_id,
        directory_id=logs.directory_id,
        listener=config.controller_listener_names[0].upper(),
        bootstrap=tuple(Address(host, port) for host, port in config.controllers),
        voters={voter.node_id: Address(voter.host, voter.port) for voter in config.voters},
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        expected_offset=logs.metadata_offset,
        reset_timeout_ms=config.initial_broker_registration_timeout_ms,
    )


def _limits(config: "BrokerConfig", logs: "LogManager") -> Limits:
    return Limits(
        node_id=config.node_id,
        cluster_id=logs.cluster_id,
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        session_timeout_ms=config.broker_session_timeout_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        shutdown_timeout_ms=config.eosin_controlled_shutdown_timeout_ms,
    )


def _identity(
    config: "BrokerConfig", listeners: "Sequence[Listener]", logs: "LogManager", chance: "Chance"
) -> BrokerIdentity:
    return BrokerIdentity(
        node_id=config.node_id,
        cluster_id=logs.cluster_id,
        incarnation_id=chance.uuid(),
        directory_id=logs.directory_id,
        listeners=tuple(
            AdvertisedListener(each.name, each.host, each.port, config.protocols.get(each.name, "PLAINTEXT"))
            for each in listeners
        ),
        rack=config.broker_rack,
        is_cordoned=bool(config.cordoned_log_dirs),
        previous_broker_epoch=logs.previous_broker_epoch,
    )
