"""CreateAcls (key 30), versions 0-3: add access control entries. There is no authorizer, so each is refused (54)."""

from typing import Final

from eosin.broker.api import Api, RequestContext, Services
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

_DISABLED: Final = AclCreationResult(ErrorCode.SECURITY_DISABLED, "No authorizer is configured on this broker")


def respond(request: CreateAclsRequest, context: RequestContext, services: Services) -> CreateAclsResponse:
    return CreateAclsResponse(results=(_DISABLED,) * len(request.creations))


def refuse(request: CreateAclsRequest, context: RequestContext, error: ErrorCode) -> CreateAclsResponse:
    return CreateAclsResponse(results=(AclCreationResult(error),) * len(request.creations))


API = Api(key=ApiKey.CREATE_ACLS, versions=range(0, 4), respond=respond, refuse=refuse)
