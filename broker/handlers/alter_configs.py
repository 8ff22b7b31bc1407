"""AlterConfigs (key 33), versions 0-2: replace all settings of topics or brokers.

What a resource's list does not name goes back to its default: clients should prefer IncrementalAlterConfigs
(KIP-339). v2 is the first flexible version.
"""

from itertools import islice

from eosin.broker.config.resources import config_rights
from eosin.broker.requests.config_changes import ResourceChange, alter
from eosin.broker.services import Services
from eosin.cluster.metadata.config_changes import MOST_CHANGES
from eosin.model.cluster import ConfigChange, Outcome
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from eosin.security.access import Access


async def handle(request: AlterConfigsRequest, context: RequestContext, services: Services) -> AlterConfigsResponse:
    resources = (
        ResourceChange(
            each.resource_type,
            each.resource_name,
            # More than may be changed are refused: all of them need not be looked at.
            [ConfigChange(config.name, config.value) for config in islice(each.configs, MOST_CHANGES + 1)],
        )
        for each in request.resources
    )
    count = len(request.resources)
    outcomes = await alter(resources, count, context, services, replace=True, validate_only=request.validate_only)
    responses = map(_response, request.resources, outcomes)
    return AlterConfigsResponse(responses=tuple(await made_for_each(responses, count, context, services)))


def _response(resource: AlterConfigsResource, outcome: Outcome) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.error,
        error_message=outcome.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(request: AlterConfigsRequest, context: RequestContext, error: ErrorCode) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=tuple(_response(each, Outcome(error)) for each in request.resources))


API = Api(
    key=ApiKey.ALTER_CONFIGS,
    versions=range(0, 3),
    handle=handle,
    refuse=refuse,
    access=Access(config_rights(Operation.ALTER_CONFIGS)),
)
