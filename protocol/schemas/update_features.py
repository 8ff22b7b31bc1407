"""UpdateFeatures (key 57), versions 0-2: change the finalized levels of features.

v1 has upgrade_type in place of allow_downgrade and adds validate_only. v2 drops the results.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class FeatureUpdateKey(Message):
    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[bool, "0"] = False
    upgrade_type: Annotated[Int8, "1+"] = 1


class UpdateFeaturesRequest(Message):
    timeout_ms: Int32 = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: Annotated[bool, "1+"] = False


class UpdatableFeatureResult(Message):
    feature: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


class UpdateFeaturesResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    results: Annotated[tuple[UpdatableFeatureResult, ...], "0-1"] = ()


SCHEMA = ApiSchema(
    key=ApiKey.UPDATE_FEATURES,
    versions=range(0, 3),
    flexible_from=0,
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
)
