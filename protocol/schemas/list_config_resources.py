"""ListConfigResources (key 74), versions 0-1: resources that have settings.

Flexible from the start. v1 adds resource_types to the request and resource_type to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Layout, Message, array, message, string, when


class ListConfigResourcesRequest(Message):
    resource_types: tuple[int, ...] = ()


class ConfigResource(Message):
    resource_name: str = ""
    resource_type: int = 16


class ListConfigResourcesResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: tuple[ConfigResource, ...] = ()


def list_config_resources_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        ListConfigResourcesRequest,
        flexible,
        *when(version >= 1, "resource_types" / array(Int8, flexible)),
    )


def list_config_resources_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    config_resource = message(
        ConfigResource,
        flexible,
        "resource_name" / string(flexible),
        *when(version >= 1, "resource_type" / Int8),
    )
    return message(
        ListConfigResourcesResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "config_resources" / array(config_resource, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    versions=range(0, 2),
    flexible_from=0,
    request=list_config_resources_request,
    response=list_config_resources_response,
)
