"""AlterConfigs (key 33), versions 0-2: replace the settings of a resource as a whole.

v2 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class AlterableConfig(Message):
    name: str = ""
    value: str | None = None


class AlterConfigsResource(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class AlterConfigsRequest(Message):
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False  # check, change nothing


class AlterConfigsResourceResponse(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""


class AlterConfigsResponse(Message):
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_CONFIGS,
    versions=range(0, 3),
    flexible_from=2,
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
)
