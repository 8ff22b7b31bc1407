"""AlterClientQuotas (key 49), versions 0-1: set and remove quotas (KIP-546; security.md 5.5).

v1 is the first flexible version. What is right in a request is written as one batch, also when something else in it is
refused. Removing what is not there succeeds.
"""

from collections import Counter
from itertools import islice
from typing import Final

from eosin.broker.services import Services
from eosin.model.cluster import Outcome
from eosin.model.quota_table import QuotaChange, entity_of, wrong_entity, wrong_value
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntryData,
)
from eosin.security.access import Access, on_the_cluster

MOST_PER_REQUEST: Final = 1000
"""Entries, whose changes are durable together."""
MOST_PARTS: Final = 10
"""There are three kinds of them."""


async def handle(
    request: AlterClientQuotasRequest, context: RequestContext, services: Services
) -> AlterClientQuotasResponse:
    count = len(request.entries)
    if count > MOST_PER_REQUEST:
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    entities = await made_for_each((_entity(entry) for entry in request.entries), count, context, services)
    times = Counter(entities)
    checked = (
        "The same entity is there twice" if times[entity] > 1 else _checked(entry)
        for entry, entity in zip(request.entries, entities, strict=True)
    )
    found = await made_for_each(checked, count, context, services)
    changes = [change for each in found if not isinstance(each, str) for change in each]
    outcome = Outcome(ErrorCode.NONE)
    if changes and not request.validate_only:
        outcome = await services.cluster.alter_quotas(changes)
    return AlterClientQuotasResponse(
        entries=tuple(
            _entry_response(entry, Outcome(ErrorCode.INVALID_REQUEST, each) if isinstance(each, str) else outcome)
            for entry, each in zip(request.entries, found, strict=True)
        )
    )


def _entity(entry: RequestEntryData) -> tuple[tuple[str, str | None], ...]:
    """Its parts in one order."""
    return tuple(sorted(_parts(entry), key=repr))


def _parts(entry: RequestEntryData) -> list[tuple[str, str | None]]:
    """The parts of an entity; of more than `MOST_PARTS` one is there twice already."""
    return [(part.entity_type, part.entity_name) for part in islice(entry.entity, MOST_PARTS)]


def _checked(entry: RequestEntryData) -> list[QuotaChange] | str:
    """The changes of an entry, or what is wrong with it."""
    parts = _parts(entry)
    wrong = wrong_entity(parts)
    if wrong is not None:
        return wrong
    entity = entity_of(parts)
    changes: list[QuotaChange] = []
    for each in entry.ops:
        value = None if each.remove else each.value
        wrong = wrong_value(entity, each.key, value)
        if wrong is not None:
            return wrong
        if any(change.key == each.key for change in changes):
            return f"{each.key} is there twice"
        changes.append(QuotaChange(entity, each.key, value))
    return changes


def _entry_response(entry: RequestEntryData, outcome: Outcome) -> ResponseEntryData:
    return ResponseEntryData(outcome.error, outcome.message, entry.entity)


def refuse(request: AlterClientQuotasRequest, context: RequestContext, error: ErrorCode) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=tuple(_entry_response(each, Outcome(error)) for each in request.entries))


API = Api(
    key=ApiKey.ALTER_CLIENT_QUOTAS,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER_CONFIGS),)),
)
