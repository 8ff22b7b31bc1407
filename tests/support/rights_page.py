"""Renders `docs/rights.md` from what the APIs declare, so that no page names a wrong operation: `make docs`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from eosin.broker.handlers.registry import APIS
from eosin.model.resources import ResourceType
from eosin.network.api import Api
from eosin.security.access import Right, Scope

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rights.md"

_INTRODUCTION = """\
# Rights

What a broker with an authorizer ([security](security.md)) asks of the sender of a request, in the order in which it
asks. Code 29 is TOPIC_AUTHORIZATION_FAILED, 30 GROUP_, 31 CLUSTER_ and 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED.

`make docs` writes this page from what each API declares.

| API (key) | operation | on | when | without it |
|---|---|---|---|---|
"""

_DIFFERENCES = """
## Where Eosin answers otherwise than Apache Kafka

Apache Kafka 4.4.0 was asked the same, by people with all rights of a row, none, and all but one. Its answers are in
tests/broker/security/kafka_rights.json, and a test compares Eosin's with them.

| request | Apache Kafka | Eosin |
|---|---|---|
| Metadata that creates a topic | UNKNOWN_TOPIC_OR_PARTITION: ask again | the topic |
| OffsetFetch up to v7 without DESCRIBE on the group | an error for the request | one for each partition, too |
| an access control entry, or a filter, with an unknown number | closes the connection | INVALID_REQUEST |
| a new entry for any type, pattern, operation or permission | UNKNOWN_SERVER_ERROR | INVALID_REQUEST |
"""

_KINDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
}


def page() -> str:
    """The whole page."""
    rows = "".join(f"{line}\n" for api in sorted(APIS, key=lambda api: api.key) for line in _rows(api))
    return _INTRODUCTION + rows + _DIFFERENCES


def _rows(api: Api) -> Iterator[str]:
    name = f"{''.join(part.title() for part in api.key.name.split('_'))} ({int(api.key)})"
    assert api.access is not None
    if api.access.open_because:
        yield f"| {name} | | | {api.access.open_because} | |"
    for right in api.access.rights:
        yield f"| {name} | {right.operation.name} | {_KINDS[right.kind]} | {right.note} | {_without(right)} |"
        name = ""


def _without(right: Right) -> str:
    if right.scope is Scope.SILENT:
        return "left out"
    if right.scope is Scope.NEXT:
        return "the next is asked"
    code = int(right.error)
    return f"{code} for the request" if right.scope is Scope.REQUEST else f"{code} for the item"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE}\n")
