"""The JSON API of the console, described for programs (OpenAPI 3.1): `/api/v1/openapi.json` (console.md 5.1).

Always true: it is made from the structs that the answers are made of, and a test compares its paths with those that are
served; it is made when it is first asked for.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from eosin.observe.console.actions import AbortHanging, EndTransaction, FenceId, RemoveMember
from eosin.observe.console.connection_survey import ConnectionsAnswer
from eosin.observe.console.explanations import Answer
from eosin.observe.console.log_rows import LogAnswer
from eosin.observe.console.log_view import MOST_BATCHES
from eosin.observe.console.record_questions import LONGEST, MOST_RECORDS, ShownRecords
from eosin.observe.console.record_rows import RecordsAnswer
from eosin.observe.console.rounds import TABLES
from eosin.observe.console.streams import Frame
from eosin.observe.console.topic_actions import ChangeTopic, CreateTopic, DeleteRecords, DeleteTopic, TestRecord
from eosin.observe.console.topic_view import TopicAnswer
from eosin.observe.explain.facts import PartitionFacts, TransactionFacts
from eosin.runtime.version import VERSION

JSON: Final = "application/json"
REFERENCE: Final = "#/components/schemas/{name}"


class Problem(msgspec.Struct):
    """The body of every refusal."""

    error: str
    """One sentence."""


class ActionDone(msgspec.Struct):
    """The result of an action."""

    text: str


class _Parameter(NamedTuple):
    name: str
    schema: dict[str, Any]
    description: str
    place: str = "query"


class _Path(NamedTuple):
    path: str
    summary: str
    answer: type
    parameters: Sequence[_Parameter] = ()
    asked: type | None = None
    """The type of a POST's body; None for a GET."""
    content: str = JSON


_OFFSET: Final = {"type": "integer", "minimum": 0}
_TEXT: Final = {"type": "string"}


def _name(description: str) -> _Parameter:
    return _Parameter("name", _TEXT, description, "path")


_PARTITION: Final = _name("a partition, as in orders-0")
_FIRST: Final = _Parameter("from", _OFFSET, "the first offset; without it, what lies near the end")

PATHS: Final = (
    _Path(
        "/api/v1/stream",
        "Server-Sent Events with what has changed",
        Frame,
        (
            _Parameter("watch", _TEXT, f"tables with commas between them: {', '.join(TABLES)}; all without it"),
            _Parameter("once", _TEXT, "ends after the first answer", "query"),
            _Parameter("last", _TEXT, "the id of the last event that was seen"),
        ),
        content="text/event-stream",
    ),
    _Path("/api/v1/explain/transactions/{name}", "A transactional id, explained", Answer, (_name("its id"),)),
    _Path("/api/v1/explain/partitions/{name}", "A partition, explained", Answer, (_PARTITION,)),
    _Path("/api/v1/explain/groups/{name}", "A consumer group, explained", Answer, (_name("the group"),)),
    _Path("/api/v1/transactions/{name}", "The facts of a transactional id", TransactionFacts, (_name("its id"),)),
    _Path("/api/v1/partitions/{name}", "The facts of a partition", PartitionFacts, (_PARTITION,)),
    _Path(
        "/api/v1/partitions/{name}/batches",
        "A part of a log, by the headers of its batches",
        LogAnswer,
        (
            _PARTITION,
            _FIRST,
            _Parameter("to", _OFFSET, "the offset after the last one; with it, many batches come as bins"),
            _Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MOST_BATCHES}, "at most so many batches"),
        ),
    ),
    _Path(
        "/api/v1/partitions/{name}/records",
        "Some records of a partition",
        RecordsAnswer,
        (
            _PARTITION,
            _FIRST,
            _Parameter("time", _OFFSET, "in its place: the first record at or after this time, in ms since 1970"),
            _Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MOST_RECORDS}, "at most so many records"),
            _Parameter("isolation", {"enum": [each.value for each in ShownRecords]}, "whose eyes to look with"),
            _Parameter("key", _TEXT, "what the key must contain"),
            _Parameter("value", _TEXT, "what the value must contain"),
            _Parameter("cut", {"type": "integer", "minimum": 1, "maximum": LONGEST}, "bytes of a key or a value"),
        ),
    ),
    _Path(
        "/api/v1/topics/{name}",
        "A topic: settings, partitions, producers, groups",
        TopicAnswer,
        (_name("the topic, as in orders"),),
    ),
    _Path(
        "/api/v1/connections",
        "Who is connected",
        ConnectionsAnswer,
        (_Parameter("contains", _TEXT, "what a client id, a peer, a library or a principal must contain"),),
    ),
    _Path("/api/v1/actions/abort-hanging", "Abort a transaction that hangs", ActionDone, asked=AbortHanging),
    _Path("/api/v1/actions/end-transaction", "Abort an open transaction", ActionDone, asked=EndTransaction),
    _Path("/api/v1/actions/fence-id", "Fence the producer of a transactional id", ActionDone, asked=FenceId),
    _Path("/api/v1/actions/remove-member", "Take a member out of its group", ActionDone, asked=RemoveMember),
    _Path("/api/v1/actions/create-topic", "Make a topic", ActionDone, asked=CreateTopic),
    _Path("/api/v1/actions/delete-topic", "Delete a topic with its records", ActionDone, asked=DeleteTopic),
    _Path("/api/v1/actions/change-topic", "Change a setting of a topic", ActionDone, asked=ChangeTopic),
    _Path("/api/v1/actions/delete-records", "Delete records below an offset", ActionDone, asked=DeleteRecords),
    _Path("/api/v1/actions/test-record", "Write a record", ActionDone, asked=TestRecord),
)


def description(*, has_actions: bool) -> bytes:
    """The document as JSON. `has_actions`: whether actions are served."""
    served = [each for each in PATHS if each.asked is None or has_actions]
    types = list(dict.fromkeys([Problem, *(each.answer for each in served), *(e.asked for e in served if e.asked)]))
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    by_type = dict(zip(types, schemas, strict=True))
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Eosin's console", "version": VERSION},
        "security": [{}, {"token": []}],
        "paths": {each.path: _operations(each, by_type) for each in served},
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return msgspec.json.encode(document)


def _operations(path: _Path, schemas: dict[type, dict[str, Any]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": path.summary,
        "parameters": [
            {
                "name": each.name,
                "in": each.place,
                "required": each.place == "path",
                "description": each.description,
                "schema": each.schema,
            }
            for each in path.parameters
        ],
        "responses": {
            "200": {"description": "The answer", "content": {path.content: {"schema": schemas[path.answer]}}},
            "default": {
                "description": "A refusal",
                "content": {JSON: {"schema": schemas[Problem]}},
            },
        },
    }
    if path.asked is None:
        return {"get": operation}
    operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schemas[path.asked]}}}
    operation["security"] = [{"token": []}]
    return {"post": operation}
