"""The log, the console and `eosin explain` say the same of each cause (console.md 2.3 and 3)."""

import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S, until

from eosin.observe.recorder.events import Cause
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest

LOG = "eosin.broker.transactions"
NAME = "invoicing"


async def successor(broker: ObservedBroker) -> None:
    old = await broker.producer(NAME)
    await old.append(ORDERS_0)
    await broker.producer(NAME, client_id="orders-2")
    await old.end(commit=True)


async def own_reinit(broker: ObservedBroker) -> None:
    producer = await broker.producer(NAME)
    await producer.wire.init(NAME)
    await producer.add(ORDERS_0)


async def own_end(broker: ObservedBroker) -> None:
    producer = await broker.producer(NAME)
    for _ in range(2):
        await producer.append(ORDERS_0)
        await producer.commit()
    await producer.add(ORDERS_0, epoch=0)


async def timeout(broker: ObservedBroker) -> None:
    late = await broker.producer(NAME, timeout_ms=50)
    await late.append(ORDERS_0)

    async def is_over() -> bool:
        return (await broker.explain(NAME)).cause == "timeout"

    await until(is_over)
    await late.end(commit=True)


async def fenced_by(broker: ObservedBroker, client_id: str) -> None:
    producer = await broker.producer(NAME)
    admin = await broker.wire(client_id)
    await admin.ask(InitProducerIdRequest(NAME, 1), 4)
    await producer.add(ORDERS_0)


async def admin_fence(broker: ObservedBroker) -> None:
    await fenced_by(broker, "billing")


async def operator(broker: ObservedBroker) -> None:
    await fenced_by(broker, "eosin-cli-1")


async def unknown_id(broker: ObservedBroker) -> None:
    producer = await broker.producer("other")
    producer.transactional_id = NAME
    await producer.add(ORDERS_0)


MADE: list[Callable[[ObservedBroker], Awaitable[None]]] = [
    successor,
    own_reinit,
    own_end,
    timeout,
    admin_fence,
    operator,
    unknown_id,
]


@pytest.mark.process
@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
async def test_the_log_the_console_and_the_command_say_the_same_of_a_cause(
    make: Callable[[ObservedBroker], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, LOG):
        async with observed_broker(eosin_console_enable=True) as broker:
            await make(broker)
            asked = await broker.explain(NAME)
            page = await broker.facts(f"explain/transactions/{NAME}")
            url = f"http://{broker.http}/api/v1/stream?once&watch=events"
            async with httpx.AsyncClient(timeout=HANG_S) as http:
                events = (await http.get(url)).text
    assert asked.cause == Cause(make.__name__)
    assert (page["text"], page["explained"]["cause"]) == (asked.text, asked.cause)
    (line,) = [each.getMessage() for each in caplog.records if vars(each)["eosin_fields"]["event"] == "producer_fenced"]
    # The command adds who has the id now; the log and the list of events tell of the moment alone.
    assert asked.sentence.startswith(line)
    assert f'"{line}."' in events


def test_a_cause_that_the_pages_name_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs/observability.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)` \| ", text, re.MULTILINE))
    assert {each.value for each in Cause} <= documented
