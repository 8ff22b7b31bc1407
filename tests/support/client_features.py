"""Features of a broker, raised and lowered as a client does."""

import asyncio

from wire import Wire

from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

_UPGRADE, _DOWNGRADE = 1, 2


def raise_feature(address: str, name: str, level: int) -> None:
    """Raise a feature to a level."""
    asyncio.run(_change(address, FeatureUpdateKey(name, level, upgrade_type=_UPGRADE)))


def lower_features(address: str, *names: str) -> None:
    """Lower features to level 0, at which the directories of an older Eosin are."""
    asyncio.run(_change(address, *(FeatureUpdateKey(each, 0, upgrade_type=_DOWNGRADE) for each in names)))


async def _change(address: str, *updates: FeatureUpdateKey) -> None:
    wire = await Wire.open(address)
    answer = await wire.ask(UpdateFeaturesRequest(feature_updates=updates), 1)
    assert answer.error_code == ErrorCode.NONE, answer
    await wire.close()
