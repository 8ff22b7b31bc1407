"""DeleteAcls (key 31), versions 0-3: remove access control entries (security.md 4.5).

v1 adds pattern types, v2 is the first flexible version, v3 knows users as resources. Each filter has a result with the
entries that it matched; one that two filters match stands in both. All of them go in one step, and the answer leaves
when that is durable. Without an authorizer each filter is refused (54).
"""

from functools import partial

from eosin.broker.services import Services
from eosin.model.acls import Acl
from eosin.model.cluster import Outcome
from eosin.model.resources import Operation
from eosin.network import audit
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from eosin.runtime.turns import in_turns
from eosin.security.access import Access, on_the_cluster
from eosin.security.acl_requests import DISABLED, MOST_FILTERS, filter_of


async def handle(request: DeleteAclsRequest, context: RequestContext, services: Services) -> DeleteAclsResponse:
    if services.acls is None:
        return _all(request, DISABLED)
    if len(request.filters) > MOST_FILTERS:
        return _all(request, Outcome(ErrorCode.INVALID_REQUEST, f"A request may hold {MOST_FILTERS} filters"))
    filters = (filter_of(each, context.api_version) for each in request.filters)
    wanted = await made_for_each(filters, len(request.filters), context, services)
    deleted = await services.acls.delete([each for each in wanted if not isinstance(each, Outcome)])
    if isinstance(deleted, Outcome):
        return _all(request, deleted)
    removed = dict.fromkeys(acl for acls in deleted for acl in acls)
    note = partial(audit.note, "an access control entry is removed", context)
    await in_turns(removed, lambda acl: note(acl=acl), services.clock)
    matched = iter(deleted)
    results = (_failed(each) if isinstance(each, Outcome) else _matched(next(matched)) for each in wanted)
    return DeleteAclsResponse(filter_results=tuple(await made_for_each(results, len(wanted), context, services)))


def _matched(acls: list[Acl]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        matching_acls=tuple(DeleteAclsMatchingAcl(ErrorCode.NONE, None, *acl) for acl in acls)
    )


def _failed(outcome: Outcome) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(outcome.error, outcome.message)


def _all(request: DeleteAclsRequest, outcome: Outcome) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=(_failed(outcome),) * len(request.filters))


def refuse(request: DeleteAclsRequest, context: RequestContext, error: ErrorCode) -> DeleteAclsResponse:
    return _all(request, Outcome(error))


API = Api(
    key=ApiKey.DELETE_ACLS,
    versions=range(0, 4),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER),)),
)
