"""DescribeClientQuotas (key 48), versions 0-1: client quotas.

v1 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Float64,
    Int8,
    Int16,
    Int32,
    Layout,
    Message,
    array,
    message,
    string,
)


class ComponentData(Message):
    entity_type: str = ""
    match_type: int = 0
    match: str | None = None


class DescribeClientQuotasRequest(Message):
    components: tuple[ComponentData, ...] = ()
    strict: bool = False


class EntityData(Message):
    entity_type: str = ""
    entity_name: str | None = None


class ValueData(Message):
    key: str = ""
    value: float = 0.0


class EntryData(Message):
    entity: tuple[EntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    entries: tuple[EntryData, ...] | None = None


def describe_client_quotas_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 1
    component_data = message(
        ComponentData,
        flexible,
        "entity_type" / string(flexible),
        "match_type" / Int8,
        "match" / string(flexible, nullable=True),
    )
    return message(
        DescribeClientQuotasRequest,
        flexible,
        "components" / array(component_data, flexible),
        "strict" / Boolean,
    )


def describe_client_quotas_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 1
    entity_data = message(
        EntityData,
        flexible,
        "entity_type" / string(flexible),
        "entity_name" / string(flexible, nullable=True),
    )
    value_data = message(
        ValueData,
        flexible,
        "key" / string(flexible),
        "value" / Float64,
    )
    entry_data = message(
        EntryData,
        flexible,
        "entity" / array(entity_data, flexible),
        "values" / array(value_data, flexible),
    )
    return message(
        DescribeClientQuotasResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "entries" / array(entry_data, flexible, nullable=True),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    versions=range(0, 2),
    flexible_from=1,
    request=describe_client_quotas_request,
    response=describe_client_quotas_response,
)
