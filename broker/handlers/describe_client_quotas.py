"""DescribeClientQuotas (key 48), versions 0-1: the quotas that were set (KIP-546). v1 is the first flexible version."""

from collections.abc import Iterable, Mapping
from typing import Final

from eosin.broker.services import Services
from eosin.model.cluster import Outcome
from eosin.model.quota_table import ENTITY_TYPES, IP
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_the_cluster

_EXACT, _DEFAULT, _ANY = 0, 1, 2
"""The ways in which a filter matches a name."""
ENTRY_WEIGHT: Final = 3
"""Number of items that the quotas of an entity count as, with its parts and their values."""
_MATCHES: Final = {_EXACT: "MATCH_TYPE_EXACT", _DEFAULT: "MATCH_TYPE_DEFAULT", _ANY: "MATCH_TYPE_SPECIFIED"}


async def handle(
    request: DescribeClientQuotasRequest, context: RequestContext, services: Services
) -> Message | EncodedBody:
    refused = _refused_filter(request.components)
    if refused is not None:
        return DescribeClientQuotasResponse(error_code=refused.error, error_message=refused.message, entries=None)
    quotas = tuple(services.cluster.quotas)
    entries = (
        EntryData(
            tuple(EntityData(*part) for part in entity),
            tuple(ValueData(key, value) for key, value in sorted(values.items())),
        )
        if _is_meant(dict(entity), request)
        else None
        for entity, values in quotas
    )
    count = len(quotas) * ENTRY_WEIGHT
    return await written(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        DescribeClientQuotasResponse(
            entries=tuple(filter(None, await made_for_each(entries, count, context, services)))
        ),
        count,
        context,
    )


def _refused_filter(components: Iterable[ComponentData]) -> Outcome | None:
    """Returns why a filter of DescribeClientQuotas makes no sense, in Kafka's words; None when it does."""
    seen: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            return Outcome(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in seen:
            return Outcome(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            return Outcome(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if each.match_type not in _MATCHES:
            return Outcome(ErrorCode.INVALID_REQUEST, f"Unknown match type {each.match_type}")
        if (each.match is None) == (each.match_type == _EXACT):
            but = "set match string to null" if each.match is None else "also specified a match string"
            return Outcome(ErrorCode.INVALID_REQUEST, f"Request specified {_MATCHES[each.match_type]}, but {but}.")
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        text = "IP filter component should not be used with user or clientId filter component."
        return Outcome(ErrorCode.INVALID_REQUEST, f"Invalid entity filter component combination. {text}")
    return None


def _is_meant(names: Mapping[str, str | None], request: DescribeClientQuotasRequest) -> bool:
    """True if a filter of DescribeClientQuotas names the entity of these parts, None for the default of a type."""
    wanted = request.components
    if request.strict and len(names) != len(wanted):
        return False
    return all(
        each.entity_type in names
        and (each.match_type == _ANY or names[each.entity_type] == (each.match if each.match_type == _EXACT else None))
        for each in wanted
    )


def refuse(
    request: DescribeClientQuotasRequest, context: RequestContext, error: ErrorCode
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, entries=None)


API = Api(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.DESCRIBE_CONFIGS),)),
)
