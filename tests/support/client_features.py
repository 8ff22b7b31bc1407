"""Features of a broker, raised as a client does."""

import asyncio

from wire import Wire

from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def raise_feature(address: str, name: str, level: int) -> None:
    """Raise a feature to a level."""
    asyncio.run(_raise(address, name, level))


async def _raise(address: str, name: str, level: int) -> None:
    wire = await Wire.open(address)
    await raise_feature_on(wire, name, level)
    await wire.close()


async def raise_feature_on(wire: Wire, name: str, level: int) -> None:
    """The same over a connection."""
    update = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(name, level, upgrade_type=1),))
    answer = await wire.ask(update, 1)
    assert answer.error_code == ErrorCode.NONE, answer
