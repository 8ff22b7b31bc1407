"""Steps that requests of the share coordinator have in common (keys 83 to 87): each names share partitions by topic id,
and has one result for each, in the order asked."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from eosin.broker.services import Services
from eosin.model.resources import Operation
from eosin.network.many_items import done_for_each, list_in_turns
from eosin.protocol.errors import ErrorCode
from eosin.protocol.types import Message
from eosin.security.access import Access, on_the_cluster

if TYPE_CHECKING:
    from eosin.coordinator.share_states import SharePartition

SHARE_VERSION: Final = "share.version"

ACCESS: Final = Access((on_the_cluster(Operation.CLUSTER_ACTION),))
"""Only brokers send these requests."""

_MESSAGES: Final = {
    ErrorCode.INVALID_REQUEST: "There is no state of this share partition, or an id or an offset makes no sense",
    ErrorCode.FENCED_LEADER_EPOCH: "Another leader of the share partition has read its state since",
    ErrorCode.FENCED_STATE_EPOCH: "The state of the share partition has begun anew since",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "There is no such topic, or it has no such partition",
    ErrorCode.UNSUPPORTED_VERSION: (
        "Share groups (KIP-932) are not served here, share.version is 0: `eosin features upgrade share.version` changes"
        " that"
    ),
}


def message_of(error: ErrorCode) -> str | None:
    """The sentence beside an error; None for one that its name explains."""
    return _MESSAGES.get(error)


async def results(
    request: Any,
    services: Services,
    do: "Callable[[SharePartition, Any], Coroutine[Any, Any, Any]]",
    made: Callable[[int, Any], Message],
    whole: Callable[[bytes, tuple[Any, ...]], Any],
) -> tuple[Any, ...]:
    """The results of a request by topic: `do` is told each share partition with the request's part of it, and `made` is
    told its index and the outcome."""
    # Here, so that a broker without share groups loads nothing of them.
    from eosin.coordinator.share_states import SharePartition

    named = ((SharePartition(request.group_id, *name), part) for name, part in _parts(request.topics))
    asked = await list_in_turns(named, services.clock)
    if services.cluster.features.level(SHARE_VERSION) < 1:
        outcomes: Sequence[Any] = [ErrorCode.UNSUPPORTED_VERSION] * len(asked)
    else:
        outcomes = await done_for_each(asked, lambda each: do(*each))
    each = (made(key.partition, outcome) for (key, _), outcome in zip(asked, outcomes, strict=True))
    return _by_topic(request.topics, iter(await list_in_turns(each, services.clock)), whole)


def refused(
    request: Any,
    error: ErrorCode,
    made: Callable[[int, Any], Message],
    whole: Callable[[bytes, tuple[Any, ...]], Any],
) -> tuple[Any, ...]:
    """The same with `error` for each share partition."""
    return _by_topic(request.topics, (made(name[1], error) for name, _ in _parts(request.topics)), whole)


def _parts(topics: Sequence[Any]) -> Iterator[tuple[tuple[bytes, int], Any]]:
    for topic in topics:
        for part in topic.partitions:
            yield (topic.topic_id, part.partition), part


def _by_topic(
    topics: Sequence[Any], answers: Iterator[Message], whole: Callable[[bytes, tuple[Any, ...]], Any]
) -> tuple[Any, ...]:
    return tuple(whole(topic.topic_id, tuple(next(answers) for _ in topic.partitions)) for topic in topics)
