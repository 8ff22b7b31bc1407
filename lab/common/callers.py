"""`Caller` and `AsyncCaller`: a broker that carries out operations, as the parts of its face see it."""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Operation = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
"""A method of `Operations`."""


class Caller(Protocol):
    """A broker for tests that block."""

    def call(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""


class AsyncCaller(Protocol):
    """A broker for tests of asyncio."""

    async def call(self, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
