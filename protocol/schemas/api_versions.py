"""ApiVersions (key 18), versions 0-4: what this broker serves, the first request of every client.

v1 adds throttle_time_ms to the response. v3 is the first flexible version and adds client_software_name and
client_software_version to the request; supported_features, finalized_features_epoch, finalized_features and
zk_migration_ready to the response.

The response header is version 0 at every version, so that a client that is told UNSUPPORTED_VERSION can read the
answer.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    array,
    message,
    string,
    tagged,
    when,
)


class ApiVersionsRequest(Message):
    client_software_name: str = ""
    client_software_version: str = ""


class ApiVersion(Message):
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


class SupportedFeatureKey(Message):
    name: str = ""
    min_version: int = 0
    max_version: int = 0


class FinalizedFeatureKey(Message):
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


class ApiVersionsResponse(Message):
    error_code: int = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: int = 0
    supported_features: tuple[SupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()
    zk_migration_ready: bool = False


def api_versions_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 3
    return message(
        ApiVersionsRequest,
        flexible,
        *when(version >= 3, "client_software_name" / string(flexible), "client_software_version" / string(flexible)),
    )


def api_versions_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 3
    api_version = message(
        ApiVersion,
        flexible,
        "api_key" / Int16,
        "min_version" / Int16,
        "max_version" / Int16,
    )
    supported_feature_key = message(
        SupportedFeatureKey,
        flexible,
        "name" / string(flexible),
        "min_version" / Int16,
        "max_version" / Int16,
    )
    finalized_feature_key = message(
        FinalizedFeatureKey,
        flexible,
        "name" / string(flexible),
        "max_version_level" / Int16,
        "min_version_level" / Int16,
    )
    return message(
        ApiVersionsResponse,
        flexible,
        "error_code" / Int16,
        "api_keys" / array(api_version, flexible),
        *when(version >= 1, "throttle_time_ms" / Int32),
        *when(
            version >= 3,
            "supported_features" / tagged(0, array(supported_feature_key, flexible)),
            "finalized_features_epoch" / tagged(1, Int64),
            "finalized_features" / tagged(2, array(finalized_feature_key, flexible)),
            "zk_migration_ready" / tagged(3, Boolean),
        ),
    )


SCHEMA = ApiSchema(
    key=ApiKey.API_VERSIONS,
    versions=range(0, 5),
    flexible_from=3,
    request=api_versions_request,
    response=api_versions_response,
)
