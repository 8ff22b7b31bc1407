"""IncrementalAlterConfigs (key 44), versions 0-1: change single settings of topics or brokers (KIP-339).

Each setting is set, deleted (back to its default), or, when it is a list, appended to or subtracted from. v1 is the
first flexible version.
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
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from eosin.security.access import Access


async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, services: Services
) -> IncrementalAlterConfigsResponse:
    resources = (
        ResourceChange(
            each.resource_type,
            each.resource_name,
            # More than may be changed are refused: all of them need not be looked at.
            [
                ConfigChange(config.name, config.value, config.config_operation)
                for config in islice(each.configs, MOST_CHANGES + 1)
            ],
        )
        for each in request.resources
    )
    count = len(request.resources)
    outcomes = await alter(resources, count, context, services, replace=False, validate_only=request.validate_only)
    responses = map(_response, request.resources, outcomes)
    return IncrementalAlterConfigsResponse(responses=tuple(await made_for_each(responses, count, context, services)))


def _response(resource: AlterConfigsResource, outcome: Outcome) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.error,
        error_message=outcome.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(
    request: IncrementalAlterConfigsRequest, context: RequestContext, error: ErrorCode
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(_response(each, Outcome(error)) for each in request.resources)
    )


API = Api(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access(config_rights(Operation.ALTER_CONFIGS)),
)
