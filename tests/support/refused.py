"""Observe clients when one request of their transaction is refused, and read the tables of docs/clients/ about it.

A client sends it `again` by itself; or the application has to `abort`, and the next transaction works; or the producer
is `finished`: it must be made anew. A table has a line for each request and error, a column for each client.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from real_clients.base import ClientRefused, Producer
from refusing_broker import RefusingBroker
from scenario import Scenario

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey

PAGES: Final = Path(__file__).resolve().parents[2] / "docs" / "clients"
AGAIN, ABORT, FINISHED, NOT_SENT = "again", "abort", "finished", "not sent"

Table = dict[tuple[str, str], tuple[str, ...]]
"""Maps the refused request and its error to the columns of their line."""


def page(client: str) -> str:
    """The page about a client library, or about those of a language: `java`."""
    return (PAGES / f"{client}.md").read_text()


def table(client: str) -> Table:
    """The table of that page."""
    rows = re.findall(r"^\| ([a-z ]+): ([A-Z_]+) \| (.+) \|$", page(client), re.MULTILINE)
    return {(request, error): tuple(does.split(" | ")) for request, error, does in rows}


@dataclass(frozen=True)
class Open:
    """A producer with one record in a transaction."""

    scenario: Scenario
    producer: Producer
    topic: str

    def send(self) -> None:
        self.producer.send(self.topic, b"refused")
        self.producer.flush()

    def send_elsewhere(self) -> None:
        self.producer.send(self.scenario.topic(), b"refused")
        self.producer.flush()

    def send_offsets(self) -> None:
        consumer = self.scenario.consumer(group=self.scenario.name("group"))
        self.producer.send_offsets({(self.topic, 0): 1}, consumer)

    def commit(self) -> None:
        self.producer.commit()


REQUESTS: Final[dict[str, tuple[ApiKey, Callable[[Open], None]]]] = {
    "a record": (ApiKey.PRODUCE, Open.send),
    "a new partition": (ApiKey.ADD_PARTITIONS_TO_TXN, Open.send_elsewhere),
    "a new group": (ApiKey.ADD_OFFSETS_TO_TXN, Open.send_offsets),
    "offsets": (ApiKey.TXN_OFFSET_COMMIT, Open.send_offsets),
    "a commit": (ApiKey.END_TXN, Open.commit),
}


def reaction(broker: RefusingBroker, scenario: Scenario, request: str, error: str) -> str:
    """The reaction of a producer with an open transaction when this request is refused once."""
    topic, producer = scenario.topic(), scenario.transactional()
    producer.begin()
    producer.send(topic, b"sent")
    producer.flush()
    api, act = REQUESTS[request]
    broker.refuse_next(api, ErrorCode[error])
    refused = fails(lambda: act(Open(scenario, producer, topic)))
    if not refused and api is not ApiKey.END_TXN:
        refused = fails(producer.commit)  # where librdkafka tells what became of records
    if not broker.stop_refusing():
        return NOT_SENT
    if not refused:
        return AGAIN
    return FINISHED if fails(producer.abort) or fails(lambda: _whole_transaction(producer, topic)) else ABORT


def fails(call: Callable[[], object]) -> bool:
    """True if the client refuses it."""
    try:
        call()
    except ClientRefused:
        return True
    return False


def _whole_transaction(producer: Producer, topic: str) -> None:
    producer.begin()
    producer.send(topic, b"next")
    producer.commit()
