"""The APIs as the nodes of one broker serve them: partitions by their leaders, groups and ids by their coordinators.

Always true: a request is checked when it is executed, not when it arrives, so one that a rule has held meets the leader
of then. What is not here any node serves, as brokers do that hand it on to the controller.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace as with_fields

from eosin.lab.nodes.table import NodeTable
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_response
from eosin.protocol.wire.headers import SIZE_BYTES

if TYPE_CHECKING:
    from eosin.broker.services import Services

GROUP: Final = "group"
TRANSACTION: Final = "transaction"
KINDS: Final = (GROUP, TRANSACTION)
"""Of coordinators."""

_ONE_KEY: Final[Mapping[ApiKey, tuple[str, str]]] = {
    **dict.fromkeys(
        (
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_DELETE,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ),
        (GROUP, "group_id"),
    ),
    **dict.fromkeys(
        (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN), (TRANSACTION, "transactional_id")
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (TRANSACTION, "v3_and_below_transactional_id"),
}
"""APIs that are about one group or one id, and the field that names it."""


class _Many(NamedTuple):
    """An API that is about several of them."""

    kind: str
    keys: str
    """The list in the request."""
    results: str
    """The list in the response."""


_MANY_KEYS: Final[Mapping[ApiKey, _Many]] = {
    ApiKey.OFFSET_FETCH: _Many(GROUP, "groups", "groups"),
    ApiKey.DESCRIBE_GROUPS: _Many(GROUP, "groups", "groups"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _Many(GROUP, "group_ids", "groups"),
    ApiKey.SHARE_GROUP_DESCRIBE: _Many(GROUP, "group_ids", "groups"),
    ApiKey.STREAMS_GROUP_DESCRIBE: _Many(GROUP, "group_ids", "groups"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _Many(GROUP, "groups", "groups"),
    ApiKey.DELETE_GROUPS: _Many(GROUP, "groups_names", "results"),
    ApiKey.DESCRIBE_TRANSACTIONS: _Many(TRANSACTION, "transactional_ids", "transaction_states"),
}
_LISTS: Final[Mapping[ApiKey, _Many]] = {
    ApiKey.LIST_GROUPS: _Many(GROUP, "", "groups"),
    ApiKey.LIST_TRANSACTIONS: _Many(TRANSACTION, "", "transaction_states"),
}
_WHILE_LOADING: Final = {ApiKey.HEARTBEAT: ErrorCode.NONE, ApiKey.SYNC_GROUP: ErrorCode.REBALANCE_IN_PROGRESS}
"""The answers of those that have no error for loading which clients know."""
COORDINATED: Final[Collection[ApiKey]] = frozenset({*_ONE_KEY, *_MANY_KEYS, *_LISTS})

NodeServices = Callable[[RequestContext, "Services"], "tuple[int | None, Services]"]
"""The node at which a request is, None for a broker that has one, and its services."""


def coordinator_partition(kind: str, key: str, services: "Services") -> TopicPartition:
    """The partition of a group or of a transactional id."""
    if kind == GROUP:
        return TopicPartition(CONSUMER_OFFSETS_TOPIC, services.groups.partition_for(key))
    return TopicPartition(TRANSACTION_STATE_TOPIC, services.transactions.partition_for(key))


def node_apis(
    apis: Mapping[int, Api], table: NodeTable, services_at: NodeServices, *, only: Collection[int] | None = None
) -> dict[int, Api]:
    """These APIs as nodes serve them; `only`: the others as they are."""
    return {
        key: api if only is not None and key not in only else _NodeApi(api, table, services_at).api
        for key, api in apis.items()
    }


class _NodeApi:
    """One API at all nodes."""

    def __init__(self, api: Api, table: NodeTable, services_at: NodeServices) -> None:
        self._api: Final = api
        self._table: Final = table
        self._services_at: Final = services_at
        self.api: Final = replace(api, respond=None, handle=self._handle)

    async def _handle(self, request: Any, context: RequestContext, services: "Services") -> Any:
        node, here = self._services_at(context, services)
        key = self._api.key
        if key in _LISTS:
            response = await self._api.response(request, context, here)
            return response if node is None else self._listed(_LISTS[key], self._message(response, context), node, here)
        many = _MANY_KEYS.get(key)
        if many is not None and getattr(request, many.keys):
            return await self._many(many, request, context, node, here)
        if key in _ONE_KEY:
            kind, field = _ONE_KEY[key]
            name = getattr(request, field)
            error = ErrorCode.NONE if name is None else self._refusal(kind, name, node, here)
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and key in _WHILE_LOADING:
                return self._api.refuse(request, context, _WHILE_LOADING[key])
            if error:
                return self._api.refuse(request, context, error)
        return await self._api.response(request, context, here)

    def _refusal(self, kind: str, key: str, node: int | None, services: "Services") -> ErrorCode:
        partition = coordinator_partition(kind, key, services)
        if node is not None and self._table.leader(partition) != node:
            return ErrorCode.NOT_COORDINATOR
        return self._table.refusals.get(partition, ErrorCode.NONE)

    async def _many(
        self, many: _Many, request: Any, context: RequestContext, node: int | None, services: "Services"
    ) -> Any:
        """The results of what is coordinated here, among refusals of the rest, in the order of the request."""
        keys = getattr(request, many.keys)
        errors = [self._refusal(many.kind, _name(each), node, services) for each in keys]
        if not any(errors):
            return await self._api.response(request, context, services)
        here = tuple(each for each, error in zip(keys, errors, strict=True) if not error)
        found: list[Any] = []
        response: Any = None
        if here:
            handled = await self._api.response(with_fields(request, **{many.keys: here}), context, services)
            response = self._message(handled, context)
            found = list(getattr(response, many.results))
        results = []
        for each, error in zip(keys, errors, strict=True):
            if not error:
                results.append(found.pop(0))
                continue
            refused = self._api.refuse(with_fields(request, **{many.keys: (each,)}), context, error)
            response = refused if response is None else response
            results += getattr(refused, many.results)
        return with_fields(response, **{many.results: tuple(results)})

    def _message(self, response: Any, context: RequestContext) -> Any:
        """The response as a message, also one of many items that is encoded."""
        if isinstance(response, Message):
            return response
        key, version = self._api.key, context.api_version
        frame = b"".join(encode_response(key, version, 0, response))[SIZE_BYTES:]
        return decode_response(key, version, frame)[1]

    def _listed(self, listed: _Many, response: Any, node: int, services: "Services") -> Any:
        """The response without what other nodes coordinate."""
        kept = tuple(
            each
            for each in getattr(response, listed.results)
            if self._table.leader(coordinator_partition(listed.kind, _name(each), services)) == node
        )
        return with_fields(response, **{listed.results: kept})


def _name(item: Any) -> str:
    """The group or the id that an item of a list is about."""
    if isinstance(item, str):
        return item
    return str(getattr(item, "group_id", None) or getattr(item, "transactional_id", ""))
