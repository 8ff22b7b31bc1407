"""A broker of the lab and its control API, which is called without HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from eosin.lab.broker import ThreadedBroker
from eosin.lab.http.application import BASE, ControlApplication
from eosin.lab.http.hosts import Lab
from eosin.lab.operations import Operations
from eosin.lab.options import options_of


class ControlClient:
    """A client of the control API."""

    def __init__(self, application: ControlApplication) -> None:
        self._application = application

    async def __call__(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None) -> tuple[int, Any]:
        """The status and the body of an answer."""
        path, _, query = path.partition("?")
        sent: list[Any] = []
        data = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data}

        async def send(message: Any) -> None:
            sent.append(message)

        full = path if path == "/readyz" else BASE + path
        scope = {"type": "http", "method": method, "path": full, "query_string": query.encode(), "headers": []}
        await self._application(scope, receive, send)
        return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


StartLab = Callable[..., Awaitable[tuple[Lab, ControlClient]]]


@pytest.fixture
async def start_lab() -> AsyncIterator[StartLab]:
    """`await start_lab(**options)` is one more broker with the topic `orders`, and its client."""
    made: list[Lab] = []

    async def start(**options: Any) -> tuple[Lab, ControlClient]:
        lab = Lab(await ThreadedBroker(options_of(topics={"orders": 1}, **options)).start_async())
        made.append(lab)
        return lab, ControlClient(ControlApplication(lab))

    yield start
    for each in made:
        await each.broker.call(Operations.fault_complaints, True)
        await each.held.close_async()


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A broker with the topic `orders`."""
    held = await ThreadedBroker(options_of(topics={"orders": 1}, seed=7)).start_async()
    yield Lab(held)
    await held.close_async()


@pytest.fixture
def control(lab: Lab) -> ControlClient:
    """Its client."""
    return ControlClient(ControlApplication(lab))
