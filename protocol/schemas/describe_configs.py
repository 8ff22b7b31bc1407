"""DescribeConfigs (key 32), versions 0-4: settings of topics and brokers.

v1 adds include_synonyms to the request; config_source and synonyms to the response and drops is_default from the
response. v3 adds include_documentation to the request; config_type and documentation to the response. v4 is the first
flexible version.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class DescribeConfigsResource(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = None  # null: all of them


class DescribeConfigsRequest(Message):
    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: Annotated[bool, "1+"] = False
    include_documentation: Annotated[bool, "3+"] = False


class DescribeConfigsSynonym(Message):
    name: str = ""
    value: str | None = None
    source: Int8 = 0


class DescribeConfigsResourceResult(Message):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    is_default: Annotated[bool, "0"] = False
    config_source: Annotated[Int8, "1+"] = -1
    is_sensitive: bool = False
    synonyms: Annotated[tuple[DescribeConfigsSynonym, ...], "1+"] = ()
    config_type: Annotated[Int8, "3+"] = 0
    documentation: Annotated[str | None, "3+"] = None


class DescribeConfigsResult(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_CONFIGS,
    versions=range(0, 5),
    flexible_from=4,
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
)
