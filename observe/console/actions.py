"""`Actions`: what an operator may do from the console, where `eosin.console.actions.enable` allows it (console.md 5.5).

Always true: an action carries the token itself, which no page of another site has, and no cookie stands for; it names
the state that its operator has read, and does nothing when that has moved on; it leaves a line in the audit log and an
event, each with the address that it came from.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eosin.broker.hanging_transactions import HangingTransactions
from eosin.broker.services import Services
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.rules.group import Group, Member
from eosin.coordinator.transactions.rules.state import NO_EPOCH, NO_PRODUCER_ID, Txn
from eosin.model.close_connection import CloseConnection
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network import audit
from eosin.network.api import RequestContext
from eosin.observe.console.log_routes import partition_named, refused
from eosin.observe.console.own_requests import OwnRequests, RequestRefused
from eosin.observe.console.record_access import LISTENER, RecordAccess
from eosin.observe.console.topic_actions import (
    MOVED_ON,
    ChangeTopic,
    CreateTopic,
    DeleteRecords,
    DeleteTopic,
    Done,
    TestRecord,
    TopicActions,
)
from eosin.observe.recorder.causes import CONSOLE
from eosin.observe.recorder.events import EventKind, Notable, identity_of
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from eosin.runtime.version import VERSION

REMOVED: Final = "removed by an operator in the console"
LONGEST_BODY: Final = 16 * 1024
JSON: Final = "application/json"
_STATUS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
}
"""The status of a refusal; of others 503 where asking again may help, else 400."""


class AbortHanging(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Abort a transaction that no coordinator will end."""

    partition: str
    producer_id: int
    producer_epoch: int
    first_offset: int
    typed: str
    """The partition once more, as the operator has typed it."""


class EndTransaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Abort what is open under a transactional id, and fence its producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    start_ms: int
    typed: str
    """The id once more, as the operator has typed it."""


class FenceId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fence the producer of a transactional id that has nothing open."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    typed: str
    """The id once more, as the operator has typed it."""


class RemoveMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Take a member out of its consumer group."""

    group: str
    member_id: str
    """A member has another one each time it joins."""


_Asked = TypeVar("_Asked")


class Actions:
    """The actions of one broker's console."""

    def __init__(self, services: Services, requests: OwnRequests, recorder: FlightRecorder | None) -> None:
        self._services = services
        self._recorder = recorder
        self._requests = requests
        self._access = RecordAccess(services)
        self._hanging = HangingTransactions(services)
        self._topics = TopicActions(services, requests)

    def routes(self) -> list[Route]:
        """Each takes a POST alone."""
        topics = self._topics
        return [
            self._route("abort-hanging", AbortHanging, self._abort),
            self._route("end-transaction", EndTransaction, self._end),
            self._route("fence-id", FenceId, self._fence),
            self._route("remove-member", RemoveMember, self._remove),
            self._route("create-topic", CreateTopic, topics.create),
            self._route("delete-topic", DeleteTopic, topics.delete),
            self._route("change-topic", ChangeTopic, topics.change),
            self._route("delete-records", DeleteRecords, topics.delete_records),
            self._route("test-record", TestRecord, topics.test),
        ]

    def _route(self, path: str, kind: type[_Asked], act: Callable[[_Asked, RequestContext], Awaitable[Done]]) -> Route:
        return Route(f"/api/v1/actions/{path}", self._action(kind, act), methods=["POST"])

    def _action(
        self, kind: type[_Asked], act: Callable[[_Asked, RequestContext], Awaitable[Done]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            body = b""
            async for piece in request.stream():
                body += piece
                if len(body) > LONGEST_BODY:
                    return refused(413, f"an action has at most {LONGEST_BODY} bytes")
            try:
                asked = msgspec.json.decode(body, type=kind)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                return refused(400, f"this is no such action: {error}")
            try:
                done = await act(asked, self._context(request))
            except RequestRefused as error:
                return refused(_status(error.error), str(error))
            if done.status != 200:
                return refused(done.status, done.sentence)
            return Response(msgspec.json.encode({"text": done.sentence}) + b"\n", media_type=JSON)

        return respond

    def _context(self, request: Request) -> RequestContext:
        host, port = ("?", 0) if request.client is None else request.client
        return RequestContext(
            api_version=5,
            client_id=CONSOLE,
            client_host=f"/{host}",
            listener=LISTENER,
            client_software_name=CONSOLE,
            client_software_version=VERSION,
            session=self._access.session(host),
            peer=f"{host}:{port}",
        )

    async def _abort(self, asked: AbortHanging, context: RequestContext) -> Done:
        if asked.typed != asked.partition:
            return Done(400, "type the partition's name to confirm")
        partition = partition_named(asked.partition)
        if partition is None:
            return Done(404, f"this broker has no log of {asked.partition[:300]!r}")
        if not _may(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            return Done(403, f"{context.session.principal} may not alter the cluster")
        error = await self._hanging.end(
            partition,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            first_offset=asked.first_offset,
            who=context,
        )
        match error:
            case ErrorCode.NONE:
                pass
            case ErrorCode.INVALID_TXN_STATE:
                return Done(409, f"no such transaction is open in {partition}: {MOVED_ON}")
            case ErrorCode.CONCURRENT_TRANSACTIONS:
                return Done(409, "it does not hang: its coordinator knows it, and will end it")
            case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return Done(404, f"this broker does not lead {partition}")
            case _:
                return Done(503, f"it could not be aborted now: {error.name}")
        pair = f"{asked.producer_id}/{asked.producer_epoch}"
        audit.note("the console aborts a hanging transaction", context, partition=str(partition), producer=pair)
        return Done(200, f"The transaction of producer {pair} in {partition} was aborted.")

    async def _end(self, asked: EndTransaction, context: RequestContext) -> Done:
        name = asked.transactional_id
        txn = self._txn_to_fence(name, asked.typed, context)
        if isinstance(txn, Done):
            return txn
        pair = (asked.producer_id, asked.producer_epoch)
        if txn.is_at_rest or txn.is_preparing or (txn.producer_id, txn.producer_epoch) != pair:
            return Done(409, f"this transaction is not open any more: {MOVED_ON}")
        if txn.start_ms != asked.start_ms:
            return Done(409, f"another transaction is open by now: {MOVED_ON}")
        error = await self._raise_epoch(txn, context)
        if error not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
            return Done(503, f"it could not be ended now: {error.name}")
        audit.note("the console ends a transaction", context, transactional_id=name, producer=f"{pair[0]}/{pair[1]}")
        self._note(name, pair, "ended its transaction", context)
        is_done = error is ErrorCode.NONE
        return Done(200, f"The transaction of {name} was aborted, and its producer is fenced." if is_done else
                    f"The transaction of {name} is being aborted: markers are on their way.")  # fmt: skip

    async def _fence(self, asked: FenceId, context: RequestContext) -> Done:
        name = asked.transactional_id
        txn = self._txn_to_fence(name, asked.typed, context)
        if isinstance(txn, Done):
            return txn
        pair = (asked.producer_id, asked.producer_epoch)
        if (txn.producer_id, txn.producer_epoch) != pair:
            return Done(409, f"another producer has {name} by now: {MOVED_ON}")
        if not txn.is_at_rest:
            return Done(409, f"{name} has a transaction by now, which can be ended: {MOVED_ON}")
        error = await self._raise_epoch(txn, context)
        if error:
            return Done(503, f"it could not be fenced now: {error.name}")
        audit.note("the console fences a producer", context, transactional_id=name, producer=f"{pair[0]}/{pair[1]}")
        self._note(name, pair, "fenced its producer", context)
        return Done(200, f"The producer of {name} is fenced.")

    def _txn_to_fence(self, name: str, typed: str, context: RequestContext) -> Txn | Done:
        """The id's transaction as its coordinator has it, if the operator may fence its producer."""
        if typed != name:
            return Done(400, "type the transactional id to confirm")
        if not _may(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            return Done(403, f"{context.session.principal} may not write with this transactional id")
        txn = self._services.transactions.txn(name)
        return Done(404, f"this broker coordinates no {name[:300]!r}") if txn is None else txn

    async def _raise_epoch(self, txn: Txn, context: RequestContext) -> ErrorCode:
        """As a new instance of the id does it, which then goes away."""
        result = await self._services.transactions.init_producer_id(
            txn.transactional_id,
            timeout_ms=min(txn.timeout_ms, self._services.config.transaction_max_timeout_ms),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_EPOCH,
            can_return=True,
            two_phase=False,
            keeps=False,
            who=context,
        )
        return result.error

    def _note(self, name: str, pair: tuple[int, int], what: str, context: RequestContext) -> None:
        if self._recorder is not None:
            now_ms = self._services.clock.now_ms()
            self._recorder.note(name, Notable(now_ms, EventKind.OPERATOR, *pair, who=identity_of(context), what=what))

    async def _remove(self, asked: RemoveMember, context: RequestContext) -> Done:
        groups = self._services.groups
        group: Group | ConsumerGroup | ErrorCode = groups.describe(asked.group)
        if isinstance(group, ErrorCode):
            group = groups.describe_consumer(asked.group)
        if isinstance(group, ErrorCode):
            return Done(404, f"this broker coordinates no group {asked.group[:300]!r}")
        member: Member | ConsumerMember | None = group.members.get(asked.member_id)
        if member is None:
            return Done(409, f"{asked.group} has no such member any more: {MOVED_ON}")
        leaving = MemberIdentity(member.member_id, member.instance_id, REMOVED)
        response = await self._requests.request(
            ApiKey.LEAVE_GROUP, LeaveGroupRequest(asked.group, "", (leaving,)), context
        )
        error = ErrorCode(response.error_code or response.members[0].error_code)
        if error:
            raise RequestRefused(error, f"the broker refuses: {error.name}")
        audit.note("the console removes a member", context, group=asked.group, member=asked.member_id)
        return Done(200, f"{member.client_id} was removed from {asked.group}. A client that still runs joins again.")


def _status(error: ErrorCode) -> int:
    """The HTTP status for an error code of Kafka's."""
    if error.name.endswith("AUTHORIZATION_FAILED"):
        return 403
    return _STATUS.get(error, 503 if error.retriable else 400)


def _may(context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
    try:
        return context.session.may(operation, kind, name)
    except CloseConnection:
        return False
