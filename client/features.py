"""The features of a cluster as its operator sees them (KIP-584): the levels in force, and those that all brokers work
with; and changes of them.

Always true: a change is asked for once, all of it or nothing; what every broker supports is told by every broker.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from eosin.client.client import Client
from eosin.client.errors import check
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

LevelRange = tuple[int, int]
UNKNOWN: Final[LevelRange] = (0, 0)
"""The levels of a feature that a broker does not name."""
_TIMEOUT_MS: Final = 30_000
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3


class Feature(NamedTuple):
    """One feature of a cluster."""

    name: str
    level: int
    """In force; 0 for a feature that nobody has finalized."""
    brokers: Mapping[int, LevelRange]
    """The lowest and the highest level that each broker works with, by node id."""

    @property
    def supported(self) -> LevelRange:
        """The levels that every broker works with. The first is above the second if there is none."""
        return max(low for low, _ in self.brokers.values()), min(high for _, high in self.brokers.values())


class FeatureAdmin:
    """Operations on features."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def describe(self) -> list[Feature]:
        """Every feature by name. Where brokers tell different levels, those of the newest count. Raises a
        ClientError."""
        nodes = sorted((await self._client.retry(self._client.fetch_metadata)).brokers)
        told = {node: (await self._client.peer(node)).versions for node in nodes}
        newest = max(told.values(), key=lambda versions: versions.features_epoch)
        names = {name for each in told.values() for name in (*each.supported_features, *each.features)}
        return [
            Feature(
                name,
                newest.features.get(name, 0),
                {node: each.supported_features.get(name, UNKNOWN) for node, each in told.items()},
            )
            for name in sorted(names)
        ]

    async def upgrade(self, levels: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raise features to these levels. Raises BrokerError, with the reason of the cluster."""
        await self._update(levels, _UPGRADE, validate_only=validate_only)

    async def downgrade(
        self, levels: Mapping[str, int], *, is_unsafe: bool = False, validate_only: bool = False
    ) -> None:
        """Lower features to these levels; `is_unsafe` ones too that lose metadata. Raises BrokerError, with the reason
        of the cluster."""
        kind = _UNSAFE_DOWNGRADE if is_unsafe else _SAFE_DOWNGRADE
        await self._update(levels, kind, validate_only=validate_only)

    async def _update(self, levels: Mapping[str, int], kind: int, *, validate_only: bool) -> None:
        request = UpdateFeaturesRequest(
            timeout_ms=_TIMEOUT_MS,
            feature_updates=tuple(
                FeatureUpdateKey(name, level, allow_downgrade=kind != _UPGRADE, upgrade_type=kind)
                for name, level in levels.items()
            ),
            validate_only=validate_only,
        )
        controller = (await self._client.retry(self._client.metadata)).controller_id
        response: UpdateFeaturesResponse = await self._client.request(
            ApiKey.UPDATE_FEATURES, request, node=controller if controller >= 0 else None
        )
        doing = f"changing {', '.join(f'{name} to {level}' for name, level in levels.items())}"
        check(response.error_code, doing, response.error_message)
        for each in response.results:
            check(each.error_code, f"changing {each.feature}", each.error_message)
