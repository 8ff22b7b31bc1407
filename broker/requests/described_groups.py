"""`describe_each`: what ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe have in common.

Each group by itself, in the order asked, a group that is named again and again once. While the kind is not
served every group is refused, whoever asks (`eosin.broker.unserved_groups`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from eosin.broker.unserved_groups import GroupProtocol, refused_groups
from eosin.model.resources import Operation, ResourceType
from eosin.network.many_items import made_for_each, once, weight_of, written
from eosin.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.coordinator.steps import InSteps
    from eosin.network.api import RequestContext
    from eosin.protocol.keys import ApiKey
    from eosin.protocol.types import Message
    from eosin.protocol.wire.codec import EncodedBody

_Group = TypeVar("_Group")


def why_not(group_id: str, error: ErrorCode, services: "Services", *, kind: str) -> str | None:
    """The sentence beside the error of a group that is not described: that it is not there, or of another kind."""
    if error is not ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    is_there = services.groups.holds_group(group_id)
    return f"Group {group_id} is not a {kind} group." if is_there else f"Group {group_id} not found."


async def describe_each(
    group_ids: Sequence[str],
    context: "RequestContext",
    services: "Services",
    *,
    key: "ApiKey",
    protocol: GroupProtocol,
    size_of: Callable[[str], int],
    described: "Callable[[str], InSteps[_Group]]",
    refusal: Callable[[str, ErrorCode, str | None], _Group],
    response: "Callable[[tuple[_Group, ...]], Message]",
) -> "Message | EncodedBody":
    """The response to a request of `key`. `size_of` tells about how many items the description of a group has, and
    `described` describes it as it is when its turn comes; `refusal` is that of a group, with an error and a
    sentence."""
    sentence = services.unserved_groups.why(protocol)
    names = await once(group_ids) if sentence is None else group_ids
    made: list[_Group] = []

    def each(group_id: str, error: ErrorCode, text: str | None) -> "InSteps[_Group]":
        yield
        if sentence is not None:
            return refusal(group_id, error, text)
        if not context.session.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            return refusal(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
        return (yield from described(group_id))

    def work() -> Iterator[None]:
        for steps in refused_groups(names, sentence, each):
            made.append((yield from steps))

    size = weight_of(names)
    if sentence is None:  # a long name costs a look-up of milliseconds
        size += sum(await made_for_each((size_of(name) for name in names), size, context, services))
    await made_for_each(work(), size, context, services)
    responses = [response(tuple(made))]
    made.clear()
    return await written(key, responses.pop(), size, context)
