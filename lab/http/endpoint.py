"""`ControlPath`: one path of the control API, and the function that carries it out.

Always true: the function's parameters say what a request has: the names in the path, `body` and `query`; what it
returns is the body of the answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, Final, get_type_hints

import msgspec

from eosin.lab.http.failures import BAD_REQUEST, BROKER_DOWN, NOT_FOUND, ControlFailure
from eosin.lab.http.hosts import Lab

_BODY: Final = "body"
_QUERY: Final = "query"
Handler = Callable[..., Awaitable[Any]]


class ControlPath:
    """A method and a path."""

    def __init__(
        self,
        method: str,
        path: str,
        handle: Handler,
        *,
        status: int = 200,
        in_batch: bool = True,
        schema: Any = None,
        errors: tuple[str, ...] = (),
        takes_any_name: bool = False,
        also: dict[int, str] | None = None,
    ) -> None:
        """`schema`: that of a body that the handler reads itself. `errors`: codes beside those that follow from what
        it takes: `takes_any_name` if no name in its path is unknown. `in_batch`: it may be one of several that are done
        in one turn. `also`: other statuses with the same answer, and what they mean."""
        self.method: Final = method
        self.path: Final = path
        self.handle: Final = handle
        self.status: Final = status
        self.in_batch: Final = in_batch
        self.schema: Final = schema
        self.also: Final = also or {}
        self._errors: Final = errors
        self._takes_any_name: Final = takes_any_name
        self._parts: Final = path.strip("/").split("/") if path != "/" else []

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of what it takes, and of what it returns."""
        return get_type_hints(self.handle)

    @property
    def summary(self) -> str:
        """A sentence about it."""
        text = self.handle.__doc__ or ""
        return " ".join(text.split()).rstrip(".")

    @property
    def names(self) -> list[str]:
        """The names in the path."""
        return [each[1:-1] for each in self._parts if each.startswith("{")]

    @property
    def body(self) -> Any:
        """The type of the body; None for none."""
        return self.hints.get(_BODY) if self.schema is None else self.schema

    @property
    def query(self) -> Any:
        """The type of the query; None for none."""
        return self.hints.get(_QUERY)

    @property
    def errors(self) -> tuple[str, ...]:
        """The codes of its errors."""
        found = [*self._errors]
        if self.body is not None or self.query is not None:
            found.append(BAD_REQUEST)
        if self.names and not self._takes_any_name:
            found.append(NOT_FOUND)
        return tuple(dict.fromkeys(found))

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """The names in a path; None if it is another path."""
        if len(parts) != len(self._parts):
            return None
        names = {}
        for given, own in zip(parts, self._parts, strict=True):
            if own.startswith("{"):
                names[own[1:-1]] = given
            elif own != given:
                return None
        return names

    async def carry_out(self, lab: Lab, names: dict[str, str], query: Mapping[str, str], body: bytes) -> Any:
        """Do it. Raises ControlFailure, LabError and EosinAssertion."""
        given: dict[str, Any] = dict(names)
        if self.query is not None:
            given[_QUERY] = _converted(query, self.query)
        elif query:
            raise ControlFailure(
                BAD_REQUEST, f"{self.path} has no parameter {next(iter(query))!r}", field=next(iter(query))
            )
        if _BODY in self.hints:
            given[_BODY] = _decoded(body, self.hints[_BODY])
        return await self.handle(lab, **given)


def _decoded(body: bytes, kind: Any) -> Any:
    """A body; an empty one is an object without fields."""
    try:
        return msgspec.json.decode(body.strip() or b"{}", type=kind)
    except msgspec.ValidationError as wrong:
        raise _invalid(wrong) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise ControlFailure(BAD_REQUEST, f"the body is no JSON: {wrong}") from None


def _converted(query: Mapping[str, str], kind: Any) -> Any:
    try:
        return msgspec.convert(query, type=kind, strict=False)
    except msgspec.ValidationError as wrong:
        raise _invalid(wrong) from None


def _invalid(wrong: msgspec.ValidationError) -> ControlFailure:
    text, _, place = str(wrong).partition(" - at `$.")
    return ControlFailure(BAD_REQUEST, f"{place.rstrip('`')}: {text}" if place else text, field=place.rstrip("`"))


UP: Final = (BROKER_DOWN,)
"""The errors of what needs a broker that runs."""
