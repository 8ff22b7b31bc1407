"""DeleteShareGroupOffsets (key 92), version 0: forget where a share group (KIP-932) is in some topics.

A group with members is 68, none of this kind 69. A topic that does not exist, or of which nothing is known, is 3;
without the right to read it 29. While `share.version` is at level 0 all is refused (`eosin.broker.unserved_groups`).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID, Uuid
from eosin.protocol.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from eosin.security.access import Access, on_each, on_the_group

_MESSAGES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such share group.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "There is no offset information to delete.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The client may not read this topic.",
}
_ACCESS: Final = Access(
    (on_the_group(Operation.DELETE), on_each(Operation.READ, ResourceType.TOPIC)), is_asked_late=True
)


async def handle(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext, services: Services
) -> DeleteShareGroupOffsetsResponse:
    if text := services.unserved_groups.why(GroupProtocol.SHARE):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
    if error := _ACCESS.denial(request, context):
        return refuse(request, context, error)
    ids: dict[str, Uuid] = {}
    denied: set[str] = set()

    def find() -> Iterator[None]:
        for asked in request.topics:
            yield
            topic = services.cluster.topics.get(asked.topic_name)
            if not context.session.may(Operation.READ, ResourceType.TOPIC, asked.topic_name):
                denied.add(asked.topic_name)
            elif topic is not None:
                ids[topic.name] = topic.topic_id

    await made_for_each(find(), len(request.topics), context, services)
    outcome = await services.groups.share.delete_offsets(request.group_id, frozenset(ids.values()))
    if isinstance(outcome, ErrorCode):
        return refuse(request, context, outcome)

    def response(name: str) -> DeleteShareGroupOffsetsResponseTopic:
        topic_id = ids.get(name, ZERO_UUID)
        error = outcome.get(topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name in denied:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        text = None if error is ErrorCode.NONE else _MESSAGES.get(error, error.name)
        return DeleteShareGroupOffsetsResponseTopic(name, topic_id, error, text)

    answers = (response(topic.topic_name) for topic in request.topics)
    made = await made_for_each(answers, len(request.topics), context, services)
    return DeleteShareGroupOffsetsResponse(responses=tuple(made))


def refuse(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext, error: ErrorCode
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=_MESSAGES.get(error))


API = Api(
    key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=_ACCESS,
)
