"""AllocateProducerIds (key 67), version 0: a broker asks for a block of producer ids (KIP-730, cluster.md 6.6).

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class AllocateProducerIdsRequest(Message):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0


SCHEMA = ApiSchema(
    key=ApiKey.ALLOCATE_PRODUCER_IDS,
    versions=range(0, 1),
    flexible_from=0,
    request=AllocateProducerIdsRequest,
    response=AllocateProducerIdsResponse,
)
