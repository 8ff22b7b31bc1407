"""AlterReplicaLogDirs (key 34), versions 0-2: move partitions between data directories.

v2 is the first flexible version. There is one directory, and everything is in it: a move to it is done, a move to any
other is one to a directory that does not exist (57).
"""

from collections.abc import Callable

from eosin.broker.handlers.describe_log_dirs import log_dir
from eosin.broker.services import Services
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
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


def respond(
    request: AlterReplicaLogDirsRequest, context: RequestContext, services: Services
) -> AlterReplicaLogDirsResponse:
    ours = log_dir(services.config)

    def error_of(path: str, partition: TopicPartition) -> ErrorCode:
        if path != ours:
            return ErrorCode.LOG_DIR_NOT_FOUND
        known = services.cluster.leader_of(partition) is not None
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    return _answered(request, error_of)


def _answered(
    request: AlterReplicaLogDirsRequest, error_of: Callable[[str, TopicPartition], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for each in request.dirs:
        for topic in each.topics:
            results.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(index, error_of(each.path, TopicPartition(topic.name, index)))
                for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        results=tuple(AlterReplicaLogDirTopicResult(name, tuple(each)) for name, each in results.items())
    )


def refuse(
    request: AlterReplicaLogDirsRequest, context: RequestContext, error: ErrorCode
) -> AlterReplicaLogDirsResponse:
    return _answered(request, lambda path, partition: error)


API = Api(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    versions=range(0, 3),
    respond=respond,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER),)),
)
