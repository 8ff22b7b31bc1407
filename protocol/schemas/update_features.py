"""UpdateFeatures (key 57), versions 0-2: change the finalized levels of features.

v1 has upgrade_type in place of allow_downgrade and adds validate_only. v2 drops the results.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int8,
    Int16,
    Int32,
    Layout,
    Message,
    array,
    message,
    string,
    when,
)


class FeatureUpdateKey(Message):
    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1


class UpdateFeaturesRequest(Message):
    timeout_ms: int = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: bool = False


class UpdatableFeatureResult(Message):
    feature: str = ""
    error_code: int = 0
    error_message: str | None = None


class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    results: tuple[UpdatableFeatureResult, ...] = ()


def update_features_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    feature_update_key = message(
        FeatureUpdateKey,
        flexible,
        "feature" / string(flexible),
        "max_version_level" / Int16,
        *when(version <= 0, "allow_downgrade" / Boolean),
        *when(version >= 1, "upgrade_type" / Int8),
    )
    return message(
        UpdateFeaturesRequest,
        flexible,
        "timeout_ms" / Int32,
        "feature_updates" / array(feature_update_key, flexible),
        *when(version >= 1, "validate_only" / Boolean),
    )


def update_features_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    updatable_feature_result = message(
        UpdatableFeatureResult,
        flexible,
        "feature" / string(flexible),
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    return message(
        UpdateFeaturesResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        *when(version <= 1, "results" / array(updatable_feature_result, flexible)),
    )


SCHEMA = ApiSchema(
    key=ApiKey.UPDATE_FEATURES,
    versions=range(0, 3),
    flexible_from=0,
    request=update_features_request,
    response=update_features_response,
)
