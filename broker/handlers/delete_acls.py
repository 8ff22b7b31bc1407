"""DeleteAcls (key 31), versions 0-3: remove access control entries. There is no authorizer, so each filter is refused
(54)."""

from typing import Final

from eosin.broker.api import Api, RequestContext, Services
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

_DISABLED: Final = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, "No authorizer is configured on this broker")


def respond(request: DeleteAclsRequest, context: RequestContext, services: Services) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=(_DISABLED,) * len(request.filters))


def refuse(request: DeleteAclsRequest, context: RequestContext, error: ErrorCode) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=(DeleteAclsFilterResult(error),) * len(request.filters))


API = Api(key=ApiKey.DELETE_ACLS, versions=range(0, 4), respond=respond, refuse=refuse)
