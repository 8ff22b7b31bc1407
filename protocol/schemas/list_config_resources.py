"""ListConfigResources (key 74), versions 0-1: resources that have settings.

Flexible from the start. v1 adds resource_types to the request and resource_type to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class ListConfigResourcesRequest(Message):
    resource_types: Annotated[tuple[Int8, ...], "1+"] = ()


class ConfigResource(Message):
    resource_name: str = ""
    resource_type: Annotated[Int8, "1+"] = 16


class ListConfigResourcesResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    versions=range(0, 2),
    flexible_from=0,
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
)
