"""DescribeLogDirs (key 35), versions 0-5: the data directory and the sizes of the logs in it.

v2 is the first flexible version, v3 adds an error for the whole, v4 the sizes of the volume (KIP-827), v5 whether the
directory takes no new partitions (KIP-1066), which it always does. No topics (null) asks for all. A partition without
records has size 0; a log that has failed is left out. The volume is the file system of the data directory, its size and
the bytes that the broker may still use: -1 when it cannot be asked. At durability `memory` there is no directory; its
name is then `memory`, and the sizes are -1.
"""

import os
from typing import TYPE_CHECKING, Final

from eosin.broker.services import Services
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import list_in_turns, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.runtime.turns import in_turns
from eosin.security.access import Access, on_the_cluster
from eosin.storage.disk.interfaces import FreeBytes

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig
    from eosin.storage.log.partition_log import PartitionLog


_VOLUME_FROM: Final = 4
_UNKNOWN: Final = FreeBytes(free=-1, total=-1)


async def handle(request: DescribeLogDirsRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    volume = await services.partitions.volume() if context.api_version >= _VOLUME_FROM else None
    room = volume or _UNKNOWN
    wanted = await _wanted(request, services)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}

    def add(log: "PartitionLog") -> None:
        name, index = partition = log.topic_partition
        if log.failure is None and (wanted is None or partition in wanted):
            topics.setdefault(name, []).append(DescribeLogDirsPartition(index, log.size_bytes))

    logs = services.partitions.hosted_logs()
    await in_turns(logs, add, services.clock)
    made = (DescribeLogDirsTopic(name, tuple(partitions)) for name, partitions in topics.items())
    results = [
        DescribeLogDirsResult(
            log_dir=log_dir(services.config),
            topics=tuple(await list_in_turns(made, services.clock)),
            total_bytes=room.total,
            usable_bytes=room.free,
        )
    ]
    topics.clear()
    return await written(
        ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsResponse(results=(results.pop(),)), len(logs), context
    )


def log_dir(config: "BrokerConfig") -> str:
    """The name of the only data directory: its whole path, which tools of Kafka's take for a move."""
    return "memory" if config.data_dir is None else os.path.abspath(config.data_dir)


async def _wanted(request: DescribeLogDirsRequest, services: Services) -> set[TopicPartition] | None:
    if request.topics is None:
        return None
    wanted: set[TopicPartition] = set()

    def add(partition: TopicPartition) -> None:
        # There may be 250,000 others, to be let go of one by one.
        if services.partitions.hosted_log(partition) is not None:
            wanted.add(partition)

    named = (TopicPartition(each.topic, index) for each in request.topics for index in each.partitions)
    await in_turns(named, add, services.clock)
    return wanted


def refuse(request: DescribeLogDirsRequest, context: RequestContext, error: ErrorCode) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error)


API = Api(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    versions=range(0, 6),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.DESCRIBE),)),
)
