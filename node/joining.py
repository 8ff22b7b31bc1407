"""`Joining`: a broker becomes a member of the controllers' cluster: the metadata follower, the channels to the
controller, the membership, and the cluster that they show (cluster.md 2.6).

Only joined mode imports this module. Always true: the cluster shows a published image once `start` has returned.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from eosin.client.addresses import Address
from eosin.client.peer import LinkDialer
from eosin.cluster.membership.channel import ControllerChannel
from eosin.cluster.membership.envelopes import Envelopes
from eosin.cluster.membership.ignored_acls import check_acls
from eosin.cluster.membership.lifecycle import Membership
from eosin.cluster.membership.rules.ports import MembershipLost
from eosin.cluster.membership.rules.registration import AdvertisedListener, BrokerIdentity
from eosin.cluster.membership.rules.states import MembershipSettings
from eosin.cluster.metadata.joined_cluster import JoinedCluster
from eosin.cluster.quorum.follower import MetadataFollower
from eosin.cluster.quorum.observer import ObserverConfig
from eosin.cluster.quorum.rules.errors import QuorumError
from eosin.cluster.quorum.rules.feature_levels import addresses_text
from eosin.model.features import SUPPORTED_JOINED, TRANSACTION_VERSION
from eosin.runtime.logging_format import fields
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.cluster.peers.links import Links
    from eosin.runtime.chance import Chance
    from eosin.runtime.clock import Clock
    from eosin.settings.broker import BrokerConfig
    from eosin.settings.listeners import Listener
    from eosin.storage.manager import LogManager

log = logging.getLogger(__name__)

SEEN_CHECK_MS: Final = 20


class Joining:
    """One broker that follows the metadata, and registers when it is started."""

    def __init__(
        self,
        config: "BrokerConfig",
        *,
        listeners: "Sequence[Listener]",
        logs: "LogManager",
        clock: "Clock",
        chance: "Chance",
        links: "Links",
    ) -> None:
        """`listeners` are this broker's as others are told them; `logs` is open; `links` are how it reaches others."""
        self._config = config
        self.logs: Final = logs
        self.clock: Final = clock
        self.links: Final = links
        self.follower: Final = MetadataFollower(
            _observer_config(config, logs),
            clock=clock,
            dial=LinkDialer(f"broker-{config.node_id}-metadata", links.controllers),
            supported=SUPPORTED_JOINED,
        )
        self.envelopes: Final = Envelopes(lambda: self.new_channel("forwarding"), clock)
        self.channel: Final = self.new_channel("own")
        self.heartbeats: Final = self.new_channel("heartbeat", socket_timeout_ms=config.broker_heartbeat_interval_ms)
        self.membership: Final = Membership(
            _identity(config, listeners, logs, chance),
            _limits(config, logs),
            channel=self.heartbeats,
            metadata=self.follower,
            save_epoch=logs.save_broker_epoch,
            clock=clock,
        )
        self.cluster: Final = JoinedCluster(
            config=config,
            cluster_id=logs.cluster_id,
            channel=self.channel,
            envelopes=self.envelopes,
            find_leader=lambda: self.follower.leader,
            own_epoch=lambda: self.membership.broker_epoch,
            controller_levels=lambda: self.heartbeats.features,
        )
        for listener in listeners:
            self.cluster.advertise(listener.name, listener.host, listener.port)
        self.follower.on_publication.append(self.cluster.publish_in_steps)
        self.following: Final = asyncio.get_running_loop().create_task(self.follower.run())
        """Ends only with the reason why the metadata can be followed no longer."""

    def new_channel(self, purpose: str, *, socket_timeout_ms: int | None = None) -> ControllerChannel:
        """A connection of its own to whoever is the active controller."""
        return ControllerChannel(
            lambda: self.follower.leader,
            clock=self.clock,
            client_id=f"broker-{self._config.node_id}-{purpose}",
            socket_timeout_ms=socket_timeout_ms or self._config.controller_socket_timeout_ms,
            security=self.links.controllers,
            why_unknown=lambda: self.follower.why_unknown,
        )

    async def start(self) -> "BrokerConfig":
        """Register, and wait for the metadata; the settings with what the cluster's features decide. Raises
        StartError."""
        await self.or_lost(self.membership.start())
        await self.or_lost(self.membership.caught_up())
        await self.or_lost(self._has_caught_up_with(self.logs.metadata_offset))
        check_acls(self._config, self.cluster.image)
        log.info(
            "this broker is registered, and fenced until it is set up",
            extra=fields(node=self._config.node_id, epoch=self.membership.broker_epoch),
        )
        # What DescribeConfigs shows: the setting has no say here.
        return replace(self._config, eosin_transaction_version=self.cluster.features.level(TRANSACTION_VERSION))

    async def _has_caught_up_with(self, offset: int) -> None:
        """Wait until the metadata are there as far as this broker has known them: with less it would set aside
        partitions that are its own (cluster.md 3.7)."""
        while self.follower.published_offset < offset:
            await self.clock.sleep(SEEN_CHECK_MS)

    async def or_lost(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for `work`, unless the metadata cannot be followed. Raises StartError."""
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait((working, self.following), return_when=asyncio.FIRST_COMPLETED)
            if self.following.done():
                raise StartError(self.why_lost())
            await working
        except MembershipLost as refused:
            raise StartError(str(refused)) from refused
        finally:
            working.cancel()

    def why_lost(self) -> str:
        """The sentence that says why the metadata are followed no longer, once that is so."""
        error = self.following.exception()
        if isinstance(error, QuorumError):
            return str(error)
        assert error is not None, "the metadata are followed until the broker ends"
        raise error

    async def close(self) -> None:
        """Send nothing more."""
        await self.membership.close()
        await self.hang_up()

    async def hang_up(self) -> None:
        """Follow the metadata no longer, and close the connections to the controllers."""
        self.following.cancel()
        await asyncio.gather(self.following, return_exceptions=True)
        await self.channel.close()
        await self.envelopes.close()


def _observer_config(config: "BrokerConfig", logs: "LogManager") -> ObserverConfig:
    return ObserverConfig(
        cluster_id=logs.cluster_id,
        node_id=config.node_id,
        directory_id=logs.directory_id,
        listener=config.controller_listener_names[0].upper(),
        bootstrap=_bootstrap(config),
        voters=_voters(config),
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        expected_offset=logs.metadata_offset,
        reset_timeout_ms=config.initial_broker_registration_timeout_ms,
    )


def _bootstrap(config: "BrokerConfig") -> tuple[Address, ...]:
    return tuple(Address(host, port) for host, port in config.controllers)


def _voters(config: "BrokerConfig") -> dict[int, Address]:
    return {voter.node_id: Address(voter.host, voter.port) for voter in config.voters}


def _limits(config: "BrokerConfig", logs: "LogManager") -> MembershipSettings:
    return MembershipSettings(
        node_id=config.node_id,
        cluster_id=logs.cluster_id,
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        session_timeout_ms=config.broker_session_timeout_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        shutdown_timeout_ms=config.eosin_controlled_shutdown_timeout_ms,
        controllers=addresses_text(_bootstrap(config) or _voters(config).values()),
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
