"""The id of the cluster that an empty directory is formatted for, when nobody gave it (cluster.md 1.3)."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from eosin.client.addresses import Address
from eosin.client.connection import Security
from eosin.client.errors import ClientError, check
from eosin.client.peer import LinkDialer
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from eosin.runtime.clock import Clock
from eosin.settings.start_error import StartError
from eosin.storage.disk.data_directory import is_unformatted
from eosin.storage.disk.interfaces import Disk

if TYPE_CHECKING:
    from eosin.cluster.peers.links import Links
    from eosin.settings.broker import BrokerConfig

_LOG: Final = logging.getLogger(__name__)

CONTROLLERS: Final = 2
"""The type of endpoints that a controller can be asked for."""
_AT_LEAST: Final = 1
"""The first version that has a type of endpoints."""
RETRY_MS: Final = 500
"""Before all of the controllers are asked again."""


async def with_cluster_id(
    config: "BrokerConfig", *, disk: Disk, clock: Clock, links: "Links | None" = None
) -> "BrokerConfig":
    """The settings of a broker of a quorum, with the id that its data directory is to be formatted for: the
    controllers' own, if nobody gave it and the directory is empty. Raises StartError, OSError."""
    path = config.data_dir
    if config.eosin_cluster_id is not None or (path is not None and not is_unformatted(disk, path)):
        return config
    addresses = (*config.controllers, *((voter.host, voter.port) for voter in config.voters))
    cluster_id = await learn_cluster_id(
        [Address(host, port) for host, port in addresses],
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        timeout_ms=config.initial_broker_registration_timeout_ms,
        clock=clock,
        security=None if links is None else links.controllers,
    )
    return replace(config, eosin_cluster_id=cluster_id)


async def learn_cluster_id(
    controllers: Sequence[Address],
    *,
    request_timeout_ms: int,
    timeout_ms: int,
    clock: Clock,
    security: Security | None = None,
) -> str:
    """Returns the cluster id of the first controller that answers. A broker need not be registered for it. Raises
    StartError when none has answered in `timeout_ms`."""
    complaint = "none was asked"
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while True:
                for address in controllers:
                    try:
                        cluster_id = await _request(address, request_timeout_ms, security)
                    except ClientError as error:
                        complaint = str(error)
                        continue
                    _LOG.info("controller %s is of cluster %s", address, cluster_id)
                    return cluster_id
                await clock.sleep(RETRY_MS)
    except TimeoutError:
        raise StartError(
            f"no controller told the id of its cluster in {timeout_ms} ms, and the data directory is not formatted:"
            f" {complaint} (--cluster-id gives the id)"
        ) from None


async def _request(address: Address, timeout_ms: int, security: Security | None) -> str:
    async with await LinkDialer(security=security)(address, timeout_ms=timeout_ms) as peer:
        version = max(peer.versions.pick(ApiKey.DESCRIBE_CLUSTER), _AT_LEAST)
        response: DescribeClusterResponse = await peer.request(
            ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=CONTROLLERS), version=version
        )
        check(response.error_code, f"asking {address} for the id of its cluster", response.error_message)
        return response.cluster_id
