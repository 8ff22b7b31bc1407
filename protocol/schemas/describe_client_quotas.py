"""DescribeClientQuotas (key 48), versions 0-1: client quotas.

v1 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class ComponentData(Message):
    entity_type: str = ""
    match_type: Int8 = 0
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
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    entries: tuple[EntryData, ...] | None = None


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    versions=range(0, 2),
    flexible_from=1,
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
)
