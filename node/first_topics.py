"""Topics that a broker makes before it serves anybody (`eosin serve --topics`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eosin.model.cluster import USE_DEFAULT
from eosin.protocol.errors import ErrorCode
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster
    from eosin.settings.first_topics import FirstTopic


async def make_first_topics(cluster: "Cluster", topics: "Sequence[FirstTopic]") -> None:
    """Make those that are not there; the others stay as they are. Raises StartError."""
    for each in topics:
        if each.name in cluster.topics:
            continue
        outcome = await cluster.create_topic(
            each.name,
            partitions=USE_DEFAULT if each.partitions is None else each.partitions,
            configs=dict(each.configs),
        )
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise StartError(f"cannot make the topic {each}: {outcome.message or outcome.error.name}")
