"""AlterClientQuotas (key 49), versions 0-1: change client quotas.

v1 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


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
    error_code: Int16 = 0
    error_message: str | None = None
    entity: tuple[EntityData, ...] = ()


class AlterClientQuotasResponse(Message):
    throttle_time_ms: Int32 = 0
    entries: tuple[ResponseEntryData, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_CLIENT_QUOTAS,
    versions=range(0, 2),
    flexible_from=1,
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
)
