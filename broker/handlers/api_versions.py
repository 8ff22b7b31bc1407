"""ApiVersions (key 18), versions 0-5: the APIs, versions and features of this broker; every client asks first.

The response is made from the registry, so it cannot differ from what is served, but for the ranges that an `Api` says
are announced otherwise. From v3 on the request has the client's name and version (KIP-511), and the response has
features (KIP-584), which are those of `Cluster.features`: the finalized level of `transaction.version` makes clients
use the protocol of KIP-890. A row of supported features that starts at 0 is left out below v4, where older clients fail
on it (KAFKA-17011). From v5 on a client may say which broker it means (KIP-1242): one that reached another, since a
port has a new owner, is sent back to its bootstrap servers by REBOOTSTRAP_REQUIRED. A version that is not served is
answered as version 0 with UNSUPPORTED_VERSION.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from eosin.security.access import open_to_all

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster
    from eosin.settings.broker import BrokerConfig

_FEATURES_FROM: Final = 3
_FEATURES_FROM_ZERO_FROM: Final = 4
_DESTINATION_FROM: Final = 5
_ANY_NODE: Final = -1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def respond(request: ApiVersionsRequest, context: RequestContext, services: Services) -> ApiVersionsResponse:
    """Answer with everything; the connection keeps the client's name from `context`."""
    if context.api_version >= _FEATURES_FROM:
        software = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            return refuse(request, context, ErrorCode.INVALID_REQUEST)
        context.client_software_name, context.client_software_version = software
    if context.api_version >= _DESTINATION_FROM:
        error = _check_destination(request, services.cluster)
        if error is not ErrorCode.NONE:
            return refuse(request, context, error)
    features = services.cluster.features
    lowest = 0 if context.api_version >= _FEATURES_FROM_ZERO_FROM else 1
    return ApiVersionsResponse(
        api_keys=announced(services.config),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in features.supported.items()
            if low >= lowest
        ),
        finalized_features_epoch=features.epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.finalized.items()
        ),
    )


def _check_destination(request: ApiVersionsRequest, cluster: "Cluster") -> ErrorCode:
    """The error of a client that says which broker it means: a cluster and a node of it, or nobody in particular."""
    names_cluster, names_node = request.cluster_id is not None, request.node_id != _ANY_NODE
    if names_cluster is not names_node:
        return ErrorCode.INVALID_REQUEST
    if names_cluster and (request.cluster_id, request.node_id) != (cluster.cluster_id, cluster.node_id):
        return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


def announced(config: "BrokerConfig") -> tuple[ApiVersion, ...]:
    """Every API with the versions announced under these settings, by key."""
    fixed, by_settings = _announcements()
    rows = list(fixed)
    for at, api in by_settings:
        rows[at] = _announcement(api, api.announced(config))
    return tuple(rows)


@cache
def _announcements() -> tuple[tuple[ApiVersion, ...], tuple[tuple[int, Api], ...]]:
    """Every API, by key, as far as settings do not matter; and the place and the API where they do."""
    from eosin.broker.handlers.registry import APIS  # the registry imports every handler, this one too

    apis = sorted(APIS, key=lambda api: api.key)
    by_settings = tuple((at, api) for at, api in enumerate(apis) if api.announced_to is not None)
    return tuple(_announcement(api, api.advertised or api.versions) for api in apis), by_settings


def _announcement(api: Api, versions: range) -> ApiVersion:
    return ApiVersion(api_key=api.key, min_version=versions.start, max_version=versions.stop - 1)


def refuse(request: ApiVersionsRequest | None, context: RequestContext, error: ErrorCode) -> ApiVersionsResponse:
    """The answer that carries `error`. To a version that is not served it is sent as version 0, and lists those that
    are (KIP-511)."""
    if error is not ErrorCode.UNSUPPORTED_VERSION:
        return ApiVersionsResponse(error_code=error)
    served = ApiVersion(api_key=API.key, min_version=API.versions.start, max_version=API.versions.stop - 1)
    return ApiVersionsResponse(error_code=error, api_keys=(served,))


API = Api(
    key=ApiKey.API_VERSIONS,
    versions=range(0, 6),
    respond=respond,
    refuse=refuse,
    access=open_to_all("a client asks before it says who it is"),
)
