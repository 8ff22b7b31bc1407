"""`RequestMatch`: the requests that a test means, by Kafka's names. Texts are patterns: `invoicing-*`.

Always true: a name that does not exist is refused before anything is searched.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from eosin.lab.common.errors import LabError, UnknownError, unknown
from eosin.lab.common.patterns import fit_patterns
from eosin.lab.history.occurrences import SeenRequest
from eosin.lab.history.requests import spelled
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey


class RequestMatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request fits if all that is named here is so."""

    api: tuple[str, ...] = ()
    """As Kafka spells them; none means any."""
    client_id: str | None = None
    software: str | None = None
    transactional_id: str | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    link: int | None = None
    node: int | None = None
    code: str | None = None
    """Of the response."""
    fate: str | None = None
    """`answered` or `lost`."""
    rule: str | None = None
    detail: str | None = None
    """Further words: `commit*` of EndTxn."""

    def fits(self, request: SeenRequest) -> bool:
        """True if `request` is one of those that are meant."""
        if self.api and request.api not in self.api:
            return False
        link = request.link
        if self.link is not None and (link is None or link.link != self.link):
            return False
        if self.node is not None and (link is None or link.node != self.node):
            return False
        texts = (
            (self.transactional_id, request.transactional_id),
            (self.group, request.group),
            (self.code, request.code),
            (self.fate, request.fate),
            (self.rule, request.rule),
            (self.detail, request.detail),
            (self.client_id, "" if link is None else link.client_id),
            (self.software, "" if link is None else link.software),
        )
        if not fit_patterns(texts):
            return False
        if self.topic is None and self.partition is None:
            return True
        return any(
            (self.topic is None or fnmatchcase(each.topic, self.topic))
            and (self.partition is None or each.partition == self.partition)
            for each in request.partitions
        )

    def __str__(self) -> str:
        named = [f"{name} {value}" for name in _FIELDS if name != "api" and (value := getattr(self, name)) is not None]
        what = " or ".join(self.api) or "a request"
        return f"{what} of {', '.join(named)}" if named else what


_FIELDS: Final = RequestMatch.__struct_fields__
_APIS: Final = {spelled(each): each for each in ApiKey}
_BY_LOWER: Final = {name.lower(): name for name in _APIS} | {key.name.lower(): name for name, key in _APIS.items()}

MatchText = str | Mapping[str, Any] | RequestMatch
"""The name of an API, the fields of a match, or a match."""


def match_of(api: str | Iterable[str] | None = None, /, **fields: Any) -> RequestMatch:
    """The match of an API, or of several, and of fields by their names. Raises LabError."""
    named = {name: value for name, value in fields.items() if value is not None}
    for name in named:
        if name not in _FIELDS:
            raise unknown("field of a request", name, _FIELDS)
    apis = named.pop("api", api)
    names = () if apis is None else (apis,) if isinstance(apis, str) else tuple(apis)
    if "code" in named:
        named["code"] = _code(named["code"])
    try:
        return msgspec.convert({"api": tuple(map(api_called, names)), **named}, RequestMatch)
    except msgspec.ValidationError as wrong:
        raise LabError(f"a request is not matched so: {wrong}") from None


def match_in(text: MatchText) -> RequestMatch:
    """The match that a test has written. Raises LabError."""
    if isinstance(text, RequestMatch):
        return text
    return match_of(text) if isinstance(text, str) else match_of(**text)


def api_called(name: str) -> str:
    """The spelling of an API's name by Kafka. Raises LabError for one that does not exist."""
    found = _BY_LOWER.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        meant = _BY_LOWER.get(str(name).lower().replace("transaction", "txn"))
        raise (
            unknown("API", str(name), _APIS)
            if meant is None
            else UnknownError(f'there is no API "{name}"; did you mean {meant}?', "API", str(name))
        )
    return found


def _code(name: Any) -> str:
    if isinstance(name, ErrorCode):
        return name.name
    if isinstance(name, str) and (name in ErrorCode.__members__ or any(each in name for each in "*?[")):
        return name
    raise unknown("error code", str(name), ErrorCode.__members__)
