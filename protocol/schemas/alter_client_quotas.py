"""AlterClientQuotas (key 49), versions 0-1: change client quotas.

v1 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Float64,
    Int16,
    Int32,
    Layout,
    Message,
    array,
    message,
    string,
)


class EntityData(Message):
    entity_type: str = ""
    entity_name: str | None = None


class OpData(Message):
    key: str = ""
    value: float = 0.0
    remove: bool = False


class RequestEntryData(Message):
    entity: tuple[EntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


class AlterClientQuotasRequest(Message):
    entries: tuple[RequestEntryData, ...] = ()
    validate_only: bool = False


class ResponseEntryData(Message):
    error_code: int = 0
    error_message: str | None = None
    entity: tuple[EntityData, ...] = ()


class AlterClientQuotasResponse(Message):
    throttle_time_ms: int = 0
    entries: tuple[ResponseEntryData, ...] = ()


def alter_client_quotas_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 1
    entity_data = message(
        EntityData,
        flexible,
        "entity_type" / string(flexible),
        "entity_name" / string(flexible, nullable=True),
    )
    op_data = message(
        OpData,
        flexible,
        "key" / string(flexible),
        "value" / Float64,
        "remove" / Boolean,
    )
    request_entry_data = message(
        RequestEntryData,
        flexible,
        "entity" / array(entity_data, flexible),
        "ops" / array(op_data, flexible),
    )
    return message(
        AlterClientQuotasRequest,
        flexible,
        "entries" / array(request_entry_data, flexible),
        "validate_only" / Boolean,
    )


def alter_client_quotas_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 1
    entity_data = message(
        EntityData,
        flexible,
        "entity_type" / string(flexible),
        "entity_name" / string(flexible, nullable=True),
    )
    response_entry_data = message(
        ResponseEntryData,
        flexible,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "entity" / array(entity_data, flexible),
    )
    return message(
        AlterClientQuotasResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "entries" / array(response_entry_data, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_CLIENT_QUOTAS,
    versions=range(0, 2),
    flexible_from=1,
    request=alter_client_quotas_request,
    response=alter_client_quotas_response,
)
