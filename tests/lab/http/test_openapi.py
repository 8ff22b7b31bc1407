"""The OpenAPI document: it is the one that is checked in, and it names every path."""

import json
from pathlib import Path

from eosin.lab.http.application import BASE, ENDPOINTS
from eosin.lab.http.openapi import document

CHECKED_IN = Path(__file__).parents[3] / "docs/lab-openapi.json"


def test_the_document_that_is_checked_in_is_current() -> None:
    current = json.dumps(document(ENDPOINTS, BASE), indent=1, ensure_ascii=False) + "\n"
    assert CHECKED_IN.read_text() == current, "run: python -m eosin.lab.http > docs/lab-openapi.json"


def test_every_path_has_its_answers_and_its_errors() -> None:
    paths = document(ENDPOINTS, BASE)["paths"]
    for each in ENDPOINTS:
        operation = paths[each.path][each.method.lower()]
        assert str(each.status) in operation["responses"]
        assert "500" in operation["responses"]
        assert operation["summary"]


def test_every_name_in_a_path_is_a_parameter() -> None:
    for path, operations in document(ENDPOINTS, BASE)["paths"].items():
        for operation in operations.values():
            names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"]
            assert all(f"{{{name}}}" in path for name in names)
            assert path.count("{") == len(names)
