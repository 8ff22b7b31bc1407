"""The OpenAPI 3.1 document of the control API, made of its endpoints and the structs that they take and return."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from eosin.lab.http.endpoint import ControlPath
from eosin.lab.http.failures import BAD_REQUEST, INTERNAL, NOT_FOUND, STATUSES
from eosin.lab.http.values import ErrorAnswer

_JSON: Final = "application/json"
_REF: Final = "#/components/schemas/{name}"
_MEANINGS: Final = {
    400: "the request is wrong",
    404: "there is no such thing",
    408: "the wait is over",
    409: "not in this state",
    422: "the assertion does not hold",
    500: "an error of the lab itself",
}


class BatchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request in a batch; its path is that below the base, with its query."""

    method: str
    path: str
    body: Any = None


class BatchAnswer(msgspec.Struct, frozen=True):
    """The answer to one."""

    status: int
    body: Any


def document(endpoints: Sequence[ControlPath], base: str) -> dict[str, Any]:
    """The whole document."""
    kinds: list[Any] = [ErrorAnswer]
    for each in endpoints:
        kinds += [kind for kind in (each.body, each.hints["return"]) if kind is not None]
    kinds += [list[BatchRequest], list[BatchAnswer]]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = {str(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_kind)
    paths["/batch"] = {"post": _batch(by_kind)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "The control API of eosin lab", "version": "1"},
        "servers": [{"url": base}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(endpoint: ControlPath, schemas: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        {"name": each, "in": "path", "required": True, "schema": {"type": "string"}} for each in endpoint.names
    ]
    if endpoint.query is not None:
        (found,), components = msgspec.json.schema_components([endpoint.query], ref_template=_REF)
        fields = components[endpoint.query.__name__]["properties"] if "$ref" in found else found["properties"]
        parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]
    found_operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _operation_id(endpoint),
        "responses": _responses(endpoint, schemas),
    }
    if parameters:
        found_operation["parameters"] = parameters
    if endpoint.body is not None:
        found_operation["requestBody"] = {"content": {_JSON: {"schema": schemas[str(endpoint.body)]}}}
    return found_operation


def _responses(endpoint: ControlPath, schemas: dict[str, Any]) -> dict[str, Any]:
    answer = {"content": {_JSON: {"schema": schemas[str(endpoint.hints["return"])]}}}
    found = {str(endpoint.status): {"description": "done", **answer}}
    found |= {str(status): {"description": meaning, **answer} for status, meaning in endpoint.also.items()}
    codes: dict[int, list[str]] = {}
    for code in (*endpoint.errors, INTERNAL):
        codes.setdefault(STATUSES[code], []).append(code)
    error = {"content": {_JSON: {"schema": schemas[str(ErrorAnswer)]}}}
    for status, names in sorted(codes.items()):
        also = " or unknown_..." if status in (STATUSES[BAD_REQUEST], STATUSES[NOT_FOUND]) else ""
        found[str(status)] = {"description": f"{_MEANINGS[status]}: {', '.join(names)}{also}", **error}
    return found


def _batch(schemas: dict[str, Any]) -> dict[str, Any]:
    error = {
        "description": f"{_MEANINGS[400]}: {BAD_REQUEST}",
        "content": {_JSON: {"schema": schemas[str(ErrorAnswer)]}},
    }
    answer = {"description": "done", "content": {_JSON: {"schema": schemas[str(list[BatchAnswer])]}}}
    return {
        "summary": "Carry out several requests in one turn of the broker's event loop",
        "operationId": "post_batch",
        "requestBody": {"content": {_JSON: {"schema": schemas[str(list[BatchRequest])]}}},
        "responses": {"200": answer, "400": error},
    }


def _operation_id(endpoint: ControlPath) -> str:
    return f"{endpoint.method.lower()}_{re.sub(r'[^a-z]+', '_', endpoint.path).strip('_') or 'root'}"
