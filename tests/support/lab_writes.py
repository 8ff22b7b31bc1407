"""One Produce to a broker of the lab that is not tried again."""

from eosin.client.produce import produce
from eosin.lab.operations import Operations
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch


async def written_once(operations: Operations, partition: int, value: str) -> str:
    """Write to a partition of `orders`; the code of the answer."""
    batch = build_batch(
        [NewRecord(None, value.encode(), 0, ())], producer_id=-1, producer_epoch=-1, base_sequence=-1, timestamp=0
    )
    answer = await produce(operations.client, TopicPartition("orders", partition), batch)
    return ErrorCode(answer.error_code).name
