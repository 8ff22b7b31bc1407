"""The version of each API to speak with one broker (KIP-35, KIP-511), and the features its cluster has agreed on."""

from collections.abc import Mapping
from typing import Final

from eosin.client.connection import Connection
from eosin.client.errors import UnsupportedVersion, check
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from eosin.runtime.version import VERSION

TRANSACTION_VERSION: Final = "transaction.version"
SOFTWARE_NAME: Final = "eosin"


class Versions:
    """The APIs that one broker serves, and this client's choice of their versions."""

    def __init__(self, response: ApiVersionsResponse, pinned: Mapping[ApiKey, int] | None = None) -> None:
        """`pinned` is the version to use for an API whatever else is possible."""
        self._served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._features = {feature.name: feature.max_version_level for feature in response.finalized_features}
        self._supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
        self._pinned = dict(pinned or {})
        self.features_epoch: Final = response.finalized_features_epoch
        """Grows with each change of the finalized levels; -1 where the broker does not tell it."""

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized level of each feature of the cluster."""
        return self._features

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        """The lowest and the highest level of each feature that the broker works with."""
        return self._supported

    def served(self, key: ApiKey) -> tuple[int, int] | None:
        """The lowest and the highest version that the broker serves; None when it does not serve the API."""
        return self._served.get(key)

    def pick(self, key: ApiKey, *, at_most: int | None = None) -> int:
        """The pinned version of an API, else the highest that both sides know, up to `at_most`.

        Raises UnsupportedVersion when there is none.
        """
        served = self._served.get(key)
        if served is None:
            raise UnsupportedVersion(f"the broker does not serve {key.name}")
        schema = schema_of(key)
        if schema is None:
            raise UnsupportedVersion(f"this client does not know {key.name}")
        low, high = max(served[0], schema.versions[0]), min(served[1], schema.versions[-1])
        pinned = self._pinned.get(key)
        if pinned is not None:
            if not low <= pinned <= high:
                raise UnsupportedVersion(f"{key.name} version {pinned} is wanted, {_range(*served)} are served")
            return pinned
        if at_most is not None:
            high = min(high, at_most)
        if low > high:
            raise UnsupportedVersion(
                f"{key.name} is served in {_range(*served)}, this client needs at most "
                f"{schema.versions[-1] if at_most is None else min(at_most, schema.versions[-1])}"
            )
        return high

    @property
    def transaction_version(self) -> int:
        """The cluster's `transaction.version`: 2 from the second part of KIP-890 on."""
        return self._features.get(TRANSACTION_VERSION, 0)


async def request_versions(connection: Connection) -> ApiVersionsResponse:
    """The broker's response to ApiVersions, at the highest version both sides know. Its error code is not checked."""
    schema = schema_of(ApiKey.API_VERSIONS)
    assert schema is not None
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=VERSION)
    highest = schema.versions[-1]
    response: ApiVersionsResponse = await connection.request(ApiKey.API_VERSIONS, request, version=highest)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        # An older broker; its refusal says what it serves, or the oldest version will do.
        served = next((api.max_version for api in response.api_keys if api.api_key == ApiKey.API_VERSIONS), 0)
        response = await connection.request(ApiKey.API_VERSIONS, request, version=min(served, highest))
    return response


async def negotiate(connection: Connection, pinned: Mapping[ApiKey, int] | None = None) -> Versions:
    """The versions of a broker, asked for once on a connection: the login needs them, too. Raises a ClientError."""
    response = connection.api_versions
    if response is None:
        response = await request_versions(connection)
        check(response.error_code, f"asking {connection.address} for its versions")
        connection.api_versions = response
    return Versions(response, pinned)


def _range(low: int, high: int) -> str:
    return f"versions {low} to {high}"
