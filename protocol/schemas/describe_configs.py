"""DescribeConfigs (key 32), versions 0-4: settings of topics and brokers.

v1 adds include_synonyms to the request; config_source and synonyms to the response and drops is_default from the
response. v3 adds include_documentation to the request; config_type and documentation to the response. v4 is the first
flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int8, Int16, Int32, Layout, Message, array, message, string, when


class DescribeConfigsResource(Message):
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = None  # null: all of them


class DescribeConfigsRequest(Message):
    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribeConfigsSynonym(Message):
    name: str = ""
    value: str | None = None
    source: int = 0


class DescribeConfigsResourceResult(Message):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    is_default: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None


class DescribeConfigsResult(Message):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...] = ()


def describe_configs_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 4
    describe_configs_resource = message(
        DescribeConfigsResource,
        flexible,
        "resource_type" / Int8,
        "resource_name" / string(flexible),
        "configuration_keys" / array(string(flexible), flexible, nullable=True),
    )
    return message(
        DescribeConfigsRequest,
        flexible,
        "resources" / array(describe_configs_resource, flexible),
        *when(version >= 1, "include_synonyms" / Boolean),
        *when(version >= 3, "include_documentation" / Boolean),
    )


def describe_configs_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 4
    describe_configs_synonym = message(
        DescribeConfigsSynonym,
        flexible,
        "name" / string(flexible),
        "value" / string(flexible, nullable=True),
        "source" / Int8,
    )
    describe_configs_resource_result = message(
        DescribeConfigsResourceResult,
        flexible,
        "name" / string(flexible),
        "value" / string(flexible, nullable=True),
        "read_only" / Boolean,
        *when(version == 0, "is_default" / Boolean),
        *when(version >= 1, "config_source" / Int8),
        "is_sensitive" / Boolean,
        *when(version >= 1, "synonyms" / array(describe_configs_synonym, flexible)),
        *when(version >= 3, "config_type" / Int8, "documentation" / string(flexible, nullable=True)),
    )
    describe_configs_result = message(
        DescribeConfigsResult,
        flexible,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "resource_type" / Int8,
        "resource_name" / string(flexible),
        "configs" / array(describe_configs_resource_result, flexible),
    )
    return message(
        DescribeConfigsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "results" / array(describe_configs_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_CONFIGS,
    versions=range(0, 5),
    flexible_from=4,
    request=describe_configs_request,
    response=describe_configs_response,
)
