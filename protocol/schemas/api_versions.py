"""ApiVersions (key 18), versions 0-5: what this broker serves, the first request of every client.

v1 adds throttle_time_ms to the response. v3 is the first flexible version and adds client_software_name and
client_software_version to the request; supported_features, finalized_features_epoch, finalized_features and
zk_migration_ready to the response. v5 adds cluster_id and node_id to the request (KIP-1242).

The response header is version 0 at every version, so that a client that is told UNSUPPORTED_VERSION can read the
answer.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Tag


class ApiVersionsRequest(Message):
    client_software_name: Annotated[str, "3+"] = ""
    client_software_version: Annotated[str, "3+"] = ""
    cluster_id: Annotated[str | None, "5+"] = None  # of the broker that the client means; None: whoever is there
    node_id: Annotated[Int32, "5+"] = -1  # of that broker; -1: whoever is there


class ApiVersion(Message):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Message):
    name: str = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Message):
    name: str = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Message):
    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], "3+", Tag(0)] = ()
    finalized_features_epoch: Annotated[Int64, "3+", Tag(1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], "3+", Tag(2)] = ()
    zk_migration_ready: Annotated[bool, "3+", Tag(3)] = False


SCHEMA = ApiSchema(
    key=ApiKey.API_VERSIONS,
    versions=range(0, 6),
    flexible_from=3,
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
)
