"""The facts of a request that a history keeps: whose it is and what it is about; and the first error of a response.

Always true: what a client sends decides how large a message is, so at most `MOST_ITEMS` of its items are read.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, Final, get_args, get_type_hints

from eosin.observe.recorder.stats import api_name
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.end_txn import EndTxnResponse
from eosin.protocol.schemas.fetch import FetchResponse, FetchTopic
from eosin.protocol.schemas.heartbeat import HeartbeatResponse
from eosin.protocol.schemas.init_producer_id import InitProducerIdResponse
from eosin.protocol.schemas.produce import ProduceResponse
from eosin.protocol.types import Message

MOST_ITEMS: Final = 100
MOST_PARTITIONS: Final = 20

FIRST_OF_TV2: Final = 5
"""The version of EndTxn that clients send under transaction version 2 (KIP-890)."""
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
IN_A_SESSION: Final = "in a session"
_COMMITTED: Final = 1
_WAYS: Final = {
    (False, False): READ_UNCOMMITTED,
    (False, True): f"{READ_UNCOMMITTED} {IN_A_SESSION}",
    (True, False): READ_COMMITTED,
    (True, True): f"{READ_COMMITTED} {IN_A_SESSION}",
}
"""The further words about a fetch, made once, since fetches are many."""

RawPartition = tuple[Any, int]
"""A topic by name, or by id where a request has no name."""


RequestFacts = tuple[str | None, str | None, tuple[RawPartition, ...], str]
"""The transactional id, the group and the partitions of a request, and further words. A plain tuple, since every
request makes one."""


def facts_of(key: ApiKey, request: Any) -> RequestFacts:
    """The facts of a request."""
    return _FACTS.get(key, _by_name)(request)


def _by_name(request: Any) -> RequestFacts:
    return getattr(request, "transactional_id", None), getattr(request, "group_id", None), (), ""


def _group(request: Any) -> RequestFacts:
    return None, request.group_id, (), ""


def _heartbeat(request: Any) -> RequestFacts:
    return None, request.group_id, (), f"epoch {request.member_epoch}"


def _shared(request: Any) -> RequestFacts:
    every = ((topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions)
    return None, request.group_id, tuple(islice(every, MOST_PARTITIONS)), f"epoch {request.share_session_epoch}"


def _nothing(_: Any) -> RequestFacts:
    return None, None, (), ""


def _produce(request: Any) -> RequestFacts:
    return request.transactional_id, None, _partitions(request.topic_data, "partition_data", "index"), ""


def _fetch(request: Any) -> RequestFacts:
    way = _WAYS[request.isolation_level == _COMMITTED, request.session_epoch >= 0]
    return None, None, _partitions(request.topics, "partitions", "partition"), way


def _end_txn(request: Any) -> RequestFacts:
    outcome = "commit" if request.committed else "abort"
    return request.transactional_id, None, (), f"{outcome} epoch {request.producer_epoch}"


def _add_partitions(request: Any) -> RequestFacts:
    several = request.transactions
    if not several:
        return request.v3_and_below_transactional_id, None, _indexes(request.v3_and_below_topics), ""
    first = several[0]
    return first.transactional_id, None, _indexes(first.topics), f"epoch {first.producer_epoch}"


def _offsets(request: Any) -> RequestFacts:
    every = ((_topic(t), p.partition_index, p.committed_offset) for t in request.topics for p in t.partitions)
    found = tuple(islice(every, MOST_PARTITIONS))
    return (
        getattr(request, "transactional_id", None),  # of TxnOffsetCommit
        request.group_id,
        tuple((topic, index) for topic, index, _ in found),
        " ".join(["to", *(str(offset) for _, _, offset in found)]),
    )


def _init(request: Any) -> RequestFacts:
    pair = f"has {request.producer_id} epoch {request.producer_epoch}" if request.producer_id >= 0 else ""
    return request.transactional_id, None, (), pair


_FACTS: Final[dict[ApiKey, Callable[[Any], RequestFacts]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.END_TXN: _end_txn,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.OFFSET_COMMIT: _offsets,
    ApiKey.TXN_OFFSET_COMMIT: _offsets,
    ApiKey.INIT_PRODUCER_ID: _init,
    **dict.fromkeys((ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP), _group),
    **dict.fromkeys(
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT), _heartbeat
    ),
    **dict.fromkeys((ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE), _shared),
    **dict.fromkeys((ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.LIST_OFFSETS), _nothing),
}


def _partitions(topics: Any, lists: str, index: str) -> tuple[RawPartition, ...]:
    if len(topics) == 1 and len(inner := getattr(topics[0], lists)) == 1:  # by far the most
        return ((_topic(topics[0]), getattr(inner[0], index)),)
    every = ((_topic(each), getattr(one, index)) for each in topics for one in getattr(each, lists))
    return tuple(islice(every, MOST_PARTITIONS))


def _topic(topic: Any) -> Any:
    name = topic.topic if type(topic) is FetchTopic else topic.name
    return name or getattr(topic, "topic_id", "")


def _indexes(topics: Any) -> tuple[RawPartition, ...]:
    return tuple(islice(((each.name, index) for each in topics for index in each.partitions), MOST_PARTITIONS))


# Names and errors -----------------------------------------------------------------------------------------------------

spelled: Final[Callable[[ApiKey], str]] = cache(api_name)
"""An API as Kafka spells it: `EndTxn`."""


def first_error(response: Any) -> str:
    """The name of the first error in a response, `NONE` if there is none; empty without a response."""
    if response is None:
        return ""
    find = _CODES.get(type(response))
    code = find(response) if find is not None else next(filter(None, islice(_codes(response), MOST_ITEMS)), 0)
    if not code:
        return "NONE"
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _own_code(response: Any) -> int:
    return int(response.error_code)


def _produce_code(response: Any) -> int:
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.error_code:
                return int(each.error_code)
    return 0


def _fetch_code(response: Any) -> int:
    if response.error_code:
        return int(response.error_code)
    for topic in response.responses:
        for each in topic.partitions:
            if each.error_code:
                return int(each.error_code)
    return 0


_CODES: Final[dict[type[Message], Callable[[Any], int]]] = {
    EndTxnResponse: _own_code,
    InitProducerIdResponse: _own_code,
    HeartbeatResponse: _own_code,
    ProduceResponse: _produce_code,
    FetchResponse: _fetch_code,
}
"""The quick way to the first error, for responses that are many."""


def _codes(message: Message) -> Iterator[int]:
    """The error codes in a message, 0 for each part without one."""
    codes, lists = _fields(type(message))
    if not codes:
        yield 0
    for name in codes:
        yield getattr(message, name)
    for name in lists:
        for each in getattr(message, name) or ():
            yield from _codes(each)


@cache
def _fields(kind: type[Message]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields of a message that are error codes, and those that are lists of messages with any."""
    hints = get_type_hints(kind)
    codes = tuple(name for name in hints if name.endswith("error_code"))
    lists = []
    for name, hint in hints.items():
        inner = [each for each in _types(hint) if isinstance(each, type) and issubclass(each, Message)]
        if inner and "tuple" in str(hint) and any(_fields(each) != ((), ()) for each in inner):
            lists.append(name)
    return codes, tuple(lists)


def _types(hint: Any) -> Iterator[Any]:
    arguments = get_args(hint)
    if not arguments:
        yield hint
    for each in arguments:
        yield from _types(each)
