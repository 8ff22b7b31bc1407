"""CreateAcls (key 30), versions 0-3: add access control entries (security.md 4.5).

v1 adds pattern types, v2 is the first flexible version, v3 knows users as resources. Each entry has its own result, and
those that make sense are added, all in one step, even when others do not; an entry that is there already is there. The
answer leaves when they are durable, and every question after it is decided by them. Without an authorizer each is
refused (54).
"""

import logging
from typing import Final

from eosin.broker.services import Services
from eosin.model.acls import Acl
from eosin.model.cluster import Outcome
from eosin.model.resources import Operation
from eosin.network import audit
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from eosin.runtime.logging_format import shown
from eosin.runtime.turns import in_turns
from eosin.security.access import Access, on_the_cluster
from eosin.security.acl_requests import DISABLED, GOOD, MOST_CREATIONS, is_too_much, new_acl, refusal_of

_LOG: Final = logging.getLogger(__name__)


async def handle(request: CreateAclsRequest, context: RequestContext, services: Services) -> CreateAclsResponse:
    if services.acls is None:
        return _all(request, DISABLED)
    if is_too_much(request.creations):
        text = f"A request may hold {MOST_CREATIONS} entries, with names of 1 MiB together"
        return _all(request, Outcome(ErrorCode.INVALID_REQUEST, text))
    judged = ((acl := new_acl(each), refusal_of(acl, context.api_version)) for each in request.creations)
    wanted = await made_for_each(judged, len(request.creations), context, services)
    refused = [refusal for _, refusal in wanted]
    good = [acl for acl, refusal in wanted if refusal is None]
    created = await services.acls.create(good)
    added = (acl for acl, outcome in zip(good, created, strict=True) if outcome.error is ErrorCode.NONE)
    await in_turns(added, lambda acl: _note(acl, context), services.clock)
    outcomes = iter(created)
    results = (_result(next(outcomes) if refusal is None else refusal) for refusal in refused)
    return CreateAclsResponse(results=tuple(results))


def _note(acl: Acl, context: RequestContext) -> None:
    from eosin.security.acl_index import is_about_nobody

    audit.note("an access control entry is added", context, acl=acl)
    if is_about_nobody(acl.host):
        _LOG.warning(
            "an access control entry for host %s matches nobody: it is no address and no network", shown(acl.host)
        )


def _result(outcome: Outcome) -> AclCreationResult:
    return AclCreationResult(*(GOOD if outcome.error is ErrorCode.NONE else outcome)[:2])


def _all(request: CreateAclsRequest, outcome: Outcome) -> CreateAclsResponse:
    return CreateAclsResponse(results=(_result(outcome),) * len(request.creations))


def refuse(request: CreateAclsRequest, context: RequestContext, error: ErrorCode) -> CreateAclsResponse:
    return _all(request, Outcome(error))


API = Api(
    key=ApiKey.CREATE_ACLS,
    versions=range(0, 4),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER),)),
)
