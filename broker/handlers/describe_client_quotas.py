"""DescribeClientQuotas (key 48), versions 0-1: quotas, of which there are none. v1 is the first flexible version."""

from eosin.broker.api import Api, RequestContext, Services
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse


def respond(
    request: DescribeClientQuotasRequest, context: RequestContext, services: Services
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(entries=())


def refuse(
    request: DescribeClientQuotasRequest, context: RequestContext, error: ErrorCode
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error)


API = Api(key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=range(0, 2), respond=respond, refuse=refuse)
