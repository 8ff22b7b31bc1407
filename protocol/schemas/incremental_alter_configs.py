"""IncrementalAlterConfigs (key 44), versions 0-1: change single settings of a resource.

v1 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class AlterableConfig(Message):
    name: str = ""
    config_operation: Int8 = 0  # 0: set, 1: delete, 2: append, 3: subtract
    value: str | None = None


class AlterConfigsResource(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(Message):
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False  # check, change nothing


class AlterConfigsResourceResponse(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""


class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=range(0, 2),
    flexible_from=1,
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
)
