"""The description of the console's JSON API says what is served (console.md 5.1)."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from observed_broker import ORDERS_0, observed_broker
from starlette.routing import Route
from waiting import HANG_S

from eosin.observe.console import openapi
from eosin.observe.console.console import Console

pytestmark = pytest.mark.process

NOT_DESCRIBED = {"/api/v1/openapi.json", "/api/v1/session"}
"""The description itself, and what the page trades its token for a cookie with."""


@pytest.mark.parametrize("has_actions", [False, True])
async def test_every_path_that_is_served_is_described(tmp_path: Path, *, has_actions: bool) -> None:
    (tmp_path / "token").write_text("correct-horse")
    settings: dict[str, Any] = {"eosin_http_token_file": str(tmp_path / "token")} if has_actions else {}
    async with observed_broker(
        eosin_console_enable=True, eosin_console_actions_enable=has_actions, **settings
    ) as broker:
        console = broker.server.observability.served.console if broker.server.observability else None
        assert isinstance(console, Console)
        served = {_plain(each) for each in console.routes() if each.path.startswith("/api/")} - NOT_DESCRIBED
        headers = {"authorization": "Bearer correct-horse"}
        async with httpx.AsyncClient(base_url=f"http://{broker.http}", headers=headers) as http:
            document = (await http.get("/api/v1/openapi.json")).json()
    described = set(document["paths"])
    assert described == served | {"/api/v1/transactions/{name}", "/api/v1/partitions/{name}"}
    assert any("post" in each for each in document["paths"].values()) == has_actions


def _plain(route: Route) -> str:
    return re.sub(r":path\}", "}", route.path)


def test_every_reference_of_the_description_leads_somewhere() -> None:
    document = json.loads(openapi.description(has_actions=True))
    assert document["openapi"] == "3.1.0"
    references = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(document)))
    assert references
    assert references <= set(document["components"]["schemas"])
    for path, operations in document["paths"].items():
        for operation in operations.values():
            named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path)), path


async def test_answers_have_the_form_that_is_described() -> None:
    async with observed_broker(eosin_console_enable=True) as broker:
        shop = await broker.producer("shop-1")
        await shop.append(ORDERS_0, 2)
        async with httpx.AsyncClient(base_url=f"http://{broker.http}", timeout=HANG_S) as http:
            for path in openapi.PATHS:
                if path.asked is not None or path.content != openapi.JSON:
                    continue
                names = {"transactions": "shop-1", "groups": "readers", "topics": "orders"}
                name = next((named for kind, named in names.items() if kind in path.path), "orders-0")
                answer = await http.get(path.path.replace("{name}", name))
                if "groups" in path.path:
                    assert answer.status_code == 404
                    msgspec.json.decode(answer.content, type=openapi.Problem)
                    continue
                assert answer.status_code == 200, path.path
                required = {field.encode_name for field in msgspec.structs.fields(path.answer) if field.required}
                assert required <= set(answer.json()), path.path
