"""AlterConfigs (key 33), versions 0-2: replace the settings of a resource as a whole.

v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int8, Int16, Int32, Layout, Message, array, message, string


class AlterableConfig(Message):
    name: str = ""
    value: str | None = None


class AlterConfigsResource(Message):
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class AlterConfigsRequest(Message):
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False  # check, change nothing


class AlterConfigsResourceResponse(Message):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""


class AlterConfigsResponse(Message):
    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


def alter_configs_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    alterable_config = message(
        AlterableConfig,
        flexible,
        "name" / string(flexible),
        "value" / string(flexible, nullable=True),
    )
    alter_configs_resource = message(
        AlterConfigsResource,
        flexible,
        "resource_type" / Int8,
        "resource_name" / string(flexible),
        "configs" / array(alterable_config, flexible),
    )
    return message(
        AlterConfigsRequest,
        flexible,
        "resources" / array(alter_configs_resource, flexible),
        "validate_only" / Boolean,
    )


def alter_configs_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    alter_configs_resource_response = message(
        AlterConfigsResourceResponse,
        flexible,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "resource_type" / Int8,
        "resource_name" / string(flexible),
    )
    return message(
        AlterConfigsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "responses" / array(alter_configs_resource_response, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_CONFIGS,
    versions=range(0, 3),
    flexible_from=2,
    request=alter_configs_request,
    response=alter_configs_response,
)
