"""AlterClientQuotas (key 49), versions 0-1: change client quotas, of which there are none.

v1 is the first flexible version. Removing a quota succeeds, since there is none; setting one is refused
(42), since nothing would enforce it.
"""

from typing import Final

from eosin.broker.api import Api, RequestContext, Services
from eosin.broker.metadata.cluster import Outcome
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntryData,
)

_ENTITY_TYPES: Final = ("user", "client-id", "ip")
_NO_QUOTAS: Final = "Eosin enforces no client quotas, so none can be set"


def respond(
    request: AlterClientQuotasRequest, context: RequestContext, services: Services
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=tuple(_answer(each, _outcome(each)) for each in request.entries))


def _outcome(entry: RequestEntryData) -> Outcome:
    if not entry.entity:
        return Outcome(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for each in entry.entity:
        if each.entity_type not in _ENTITY_TYPES:
            return Outcome(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {each.entity_type}")
        if each.entity_name == "":
            return Outcome(ErrorCode.INVALID_REQUEST, f"Empty {each.entity_type} not supported")
    if all(each.remove for each in entry.ops):
        return Outcome(ErrorCode.NONE)
    return Outcome(ErrorCode.INVALID_REQUEST, _NO_QUOTAS)


def _answer(entry: RequestEntryData, outcome: Outcome) -> ResponseEntryData:
    return ResponseEntryData(outcome.error, outcome.message, entry.entity)


def refuse(request: AlterClientQuotasRequest, context: RequestContext, error: ErrorCode) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=tuple(_answer(each, Outcome(error)) for each in request.entries))


API = Api(key=ApiKey.ALTER_CLIENT_QUOTAS, versions=range(0, 2), respond=respond, refuse=refuse)
