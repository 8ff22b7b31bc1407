"""`EarlierErrors`: a broker says of fences what brokers said before KIP-588.

Always true: PRODUCER_FENCED leaves it as INVALID_PRODUCER_EPOCH, whoever says it, a scripted fault too; nothing else of
a response changes.
"""

from typing import Any

from msgspec.structs import replace

from eosin.coordinator.transactions.rules.timeout_errors import KNOWS_PRODUCER_FENCED
from eosin.network.request_hooks import ObservedRequest, RequestHooks
from eosin.protocol.errors import ErrorCode
from eosin.protocol.types import Message


class EarlierErrors(RequestHooks):
    """Stands behind all other hooks, so that it sees what they have made of a response."""

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """The response in the words of then."""
        return said_before(response) if observed.api.key in KNOWS_PRODUCER_FENCED else response


def said_before(part: Any) -> Any:
    """A part of a response, with INVALID_PRODUCER_EPOCH for each PRODUCER_FENCED in it."""
    if isinstance(part, tuple):
        return tuple(map(said_before, part))
    if not isinstance(part, Message):
        return part
    changes = {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if name.endswith("error_code"):
            if value == ErrorCode.PRODUCER_FENCED:
                changes[name] = ErrorCode.INVALID_PRODUCER_EPOCH
        elif isinstance(value, (tuple, Message)) and (other := said_before(value)) != value:
            changes[name] = other
    return replace(part, **changes) if changes else part
