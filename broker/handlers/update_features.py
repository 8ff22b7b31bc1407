"""UpdateFeatures (key 57), versions 0-2: change the finalized levels of features.

v1 has upgrade_type in place of allow_downgrade and adds validate_only; v2 drops the results: one error is that of all.
`group.version`, `share.version` and `streams.version` change at once, but not to 0 while a group of their kind has
members. Of the others, what is in force already is done; none changes while the broker runs, so any other level is
refused (95), and nothing is changed.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.model.cluster import Outcome
from eosin.model.features import (
    CHANGED_WHILE_RUNNING,
    GROUP_VERSION,
    LEVEL_SETTINGS,
    SHARE_VERSION,
    STREAMS_VERSION,
    Features,
)
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from eosin.security.access import Access, on_the_cluster

_UPGRADE_TYPES: Final = (1, 2, 3)
MOST_NAMED: Final = 3
MOST_UPDATES: Final = 1000
"""There are not so many features."""


async def handle(request: UpdateFeaturesRequest, context: RequestContext, services: Services) -> UpdateFeaturesResponse:
    if len(request.feature_updates) > MOST_UPDATES:
        text = f"A request updates at most {MOST_UPDATES} features"
        return _refused(request, Outcome(ErrorCode.INVALID_REQUEST, text))
    features = services.cluster.features
    for update in request.feature_updates:
        problem = _problem(update, features) or _obstacle(update, features, services)
        if problem is not None:
            text = (
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {problem}"
            )
            return _refused(request, Outcome(ErrorCode.INVALID_UPDATE_VERSION, text))
    levels = {
        each.feature: each.max_version_level
        for each in request.feature_updates
        if each.feature in CHANGED_WHILE_RUNNING
    }
    if levels and not request.validate_only:
        outcome = await services.cluster.finalize_levels(levels)
        if outcome.error is not ErrorCode.NONE:
            return _refused(request, outcome)
    results = tuple(UpdatableFeatureResult(each.feature) for each in request.feature_updates)
    return UpdateFeaturesResponse(results=results)


def _problem(update: FeatureUpdateKey, features: Features) -> str | None:
    """Returns why this level cannot be had; None when it is in force."""
    name, wanted = update.feature, update.max_version_level
    if update.upgrade_type not in _UPGRADE_TYPES:
        return "There is no such upgrade type."
    if name not in features.supported:
        return "This broker does not support this feature."
    if wanted == features.level(name):
        return None
    low, high = features.supported[name]
    if low <= wanted <= high and name in CHANGED_WHILE_RUNNING:
        return None
    if low <= wanted <= high:
        return f"Set {LEVEL_SETTINGS[name]}={wanted} and restart the broker."
    levels = f"version {low}" if low == high else f"versions {low}-{high}"
    return f"This broker only supports {levels}."


def _obstacle(update: FeatureUpdateKey, features: Features, services: Services) -> str | None:
    """Returns why groups forbid this level now; None if they do not."""
    if update.max_version_level >= features.level(update.feature):
        return None
    groups = services.groups
    if update.feature == GROUP_VERSION and (held := groups.consumer_groups_with_members(MOST_NAMED)):
        text = "Consumer groups have members, as"
        return f"{text} {', '.join(held)}: let them leave, or go on with group.protocol=classic."
    if update.feature == SHARE_VERSION and update.max_version_level:
        return None  # they go on, without dead letters
    if update.feature == SHARE_VERSION and (held := groups.share.with_members(MOST_NAMED)):
        return f"Share groups have members, as {', '.join(held)}: let them leave."
    if update.feature == STREAMS_VERSION and (held := groups.streams.with_members(MOST_NAMED)):
        return f"Streams groups have members, as {', '.join(held)}: stop the applications, or let their members leave."
    return None


def _refused(request: UpdateFeaturesRequest, outcome: Outcome) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=outcome.error, error_message=outcome.message)


def refuse(request: UpdateFeaturesRequest, context: RequestContext, error: ErrorCode) -> UpdateFeaturesResponse:
    return _refused(request, Outcome(error))


API = Api(
    key=ApiKey.UPDATE_FEATURES,
    versions=range(0, 3),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER),)),
)
