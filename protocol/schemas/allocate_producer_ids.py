"""AllocateProducerIds (key 67), version 0: a broker asks for a block of producer ids (KIP-730, cluster.md 6.6).

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, message


class AllocateProducerIdsRequest(Message):
    broker_id: int = 0
    broker_epoch: int = -1


class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0


def allocate_producer_ids_request(version: int) -> Layout:
    """The request at `version`."""
    return message(AllocateProducerIdsRequest, True, "broker_id" / Int32, "broker_epoch" / Int64)


def allocate_producer_ids_response(version: int) -> Layout:
    """The response at `version`."""
    return message(
        AllocateProducerIdsResponse,
        True,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "producer_id_start" / Int64,
        "producer_id_len" / Int32,
    )


SCHEMA = ApiSchema(
    key=ApiKey.ALLOCATE_PRODUCER_IDS,
    versions=range(0, 1),
    flexible_from=0,
    request=allocate_producer_ids_request,
    response=allocate_producer_ids_response,
)
