"""DescribeAcls (key 29), versions 0-3: access control lists, of which there are none.

The answer is Kafka's without an authorizer: SECURITY_DISABLED, which consoles take for "no ACLs here".
"""

from eosin.broker.api import Api, RequestContext, Services
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def respond(request: DescribeAclsRequest, context: RequestContext, services: Services) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No authorizer is configured on this broker"
    )


def refuse(request: DescribeAclsRequest, context: RequestContext, error: ErrorCode) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error)


API = Api(key=ApiKey.DESCRIBE_ACLS, versions=range(0, 4), respond=respond, refuse=refuse)
