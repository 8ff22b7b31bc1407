"""AlterReplicaLogDirs (key 34), versions 0-2: move partitions between data directories.

v2 is the first flexible version. There is one directory, and everything is in it: a move to it is done, a move to any
other is one to a directory that does not exist (57).
"""

from collections.abc import Callable, Iterator
from itertools import repeat

from eosin.broker.handlers.describe_log_dirs import log_dir
from eosin.broker.services import Services
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from eosin.security.access import Access, on_the_cluster

_Results = dict[str, list[AlterReplicaLogDirPartitionResult]]
"""By topic."""


async def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext, services: Services
) -> AlterReplicaLogDirsResponse:
    ours = log_dir(services.config)

    def error_of(path: str, partition: TopicPartition) -> ErrorCode:
        if path != ours:
            return ErrorCode.LOG_DIR_NOT_FOUND
        known = services.cluster.leader_of(partition) is not None
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    results: _Results = {}
    count = sum(1 + len(topic.partitions) for each in request.dirs for topic in each.topics)
    await made_for_each(_response(request, error_of, results), count, context, services)
    topics = (AlterReplicaLogDirTopicResult(name, tuple(each)) for name, each in results.items())
    return AlterReplicaLogDirsResponse(results=tuple(await made_for_each(topics, len(results), context, services)))


def _response(
    request: AlterReplicaLogDirsRequest, error_of: Callable[[str, TopicPartition], ErrorCode], results: _Results
) -> Iterator[None]:
    """Put the answers into `results`, one after the other."""
    for each in request.dirs:
        for topic in each.topics:
            answers = results.setdefault(topic.name, [])
            yield None
            for index in topic.partitions:
                error = error_of(each.path, TopicPartition(topic.name, index))
                answers.append(AlterReplicaLogDirPartitionResult(index, error))
                yield None


def refuse(
    request: AlterReplicaLogDirsRequest, context: RequestContext, error: ErrorCode
) -> AlterReplicaLogDirsResponse:
    results: _Results = {}
    for each in request.dirs:
        for topic in each.topics:
            refused = map(AlterReplicaLogDirPartitionResult, topic.partitions, repeat(error))
            results.setdefault(topic.name, []).extend(refused)
    return AlterReplicaLogDirsResponse(
        results=tuple(AlterReplicaLogDirTopicResult(name, tuple(each)) for name, each in results.items())
    )


API = Api(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    versions=range(0, 3),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER),)),
)
