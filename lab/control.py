"""The words between `ProcessBroker` and its child: frames of MessagePack, one response for each call, in order.

Always true: a call names an operation of `Operations`, and its response is the operation's result or one sentence.
"""

from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec

from eosin.client.errors import ClientError
from eosin.lab.common.errors import LabError
from eosin.lab.operations import Operations

SIZE_BYTES: Final = 4


class Call(msgspec.Struct, array_like=True):
    """An operation to be done."""

    operation: str
    args: list[Any]
    kwargs: dict[str, Any]


class Returned(msgspec.Struct, omit_defaults=True):
    """The result of an operation, or why there is none."""

    result: Any = None
    refusal: str | None = None


def framed(message: Call | Returned) -> bytes:
    """A message with its size before it."""
    try:
        body = msgspec.msgpack.encode(message)
    except TypeError as error:
        raise LabError(f"a broker in another process takes no functions or other objects: {error}") from None
    return len(body).to_bytes(SIZE_BYTES, "big") + body


def read_frame(read: Callable[[int], bytes]) -> bytes | None:
    """The next message; None at the end. `read` returns that many bytes, or fewer."""
    size = _read_exactly(read, SIZE_BYTES)
    return None if size is None else _read_exactly(read, int.from_bytes(size, "big"))


def call_in(frame: bytes) -> Call:
    """The call in a frame."""
    return msgspec.msgpack.decode(frame, type=Call)


def result_of(frame: bytes, operation: Callable[..., Any]) -> Any:
    """The result in the response to a call of `operation`. Raises LabError for a refusal."""
    return msgspec.convert(result(frame), type=_result_type(operation.__name__))


def result(frame: bytes) -> Any:
    """The result in a response, as MessagePack has it. Raises LabError for a refusal."""
    returned = msgspec.msgpack.decode(frame, type=Returned)
    if returned.refusal is not None:
        raise LabError(returned.refusal)
    return returned.result


def perform(asked: Call, operations: Operations, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> Returned:
    """Do what was asked; `run` runs it in the broker's loop, and waits for it: also if that loop ends meanwhile."""
    try:
        return Returned(run(getattr(operations, asked.operation)(*asked.args, **asked.kwargs)))
    except (ClientError, LabError) as refused:
        return Returned(refusal=str(refused))


@cache
def _result_type(operation: str) -> Any:
    return get_type_hints(getattr(Operations, operation))["return"]


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        piece = read(size - len(data))
        if not piece:
            return None
        data += piece
    return data
