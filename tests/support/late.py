"""Producers whose transactions run out of time together, and what their applications do too late.

Of another broker (`asked_broker.py`) the same is asked. Their end is waited for: Apache Kafka looks at deadlines at
intervals.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import pytest
from asked_broker import ANOTHER
from real_clients.base import Client, ClientRefused, Producer
from scenario import Scenario
from waiting import until

from eosin.client.client import Client as OwnClient
from eosin.client.transactions import TransactionAdmin

TIMEOUT_MS: Final = 3000 if ANOTHER in os.environ else 1000
"""The shortest that librdkafka accepts; another broker may need longer for the record before it."""


class Late:
    """A producer with one record in a transaction, and what its application does too late."""

    def __init__(self, scenario: Scenario, timeout_ms: int = TIMEOUT_MS) -> None:
        self.scenario = scenario
        self.topic = scenario.topic()
        self.elsewhere = scenario.topic()
        """Made now, not by the act: an admin client may need a while after a restart, and its refusal is none of the
        producer's (docs/clients.md, kafka-python)."""
        self.transactional_id = scenario.name("tx")
        self.refusals: list[ClientRefused] = []
        """The refusals that lost transactions after the late one."""
        self.producer = scenario.transactional(self.transactional_id, transaction_timeout_ms=timeout_ms)
        self.producer.begin()
        self.producer.send(self.topic, b"timed out")
        self.producer.flush()

    def produce(self) -> None:
        self.producer.send(self.topic, b"late")
        self.producer.flush()
        self.producer.commit()

    def produce_elsewhere(self) -> None:
        """Send to another partition, which the producer adds first, and commit."""
        self.producer.send(self.elsewhere, b"late")
        self.producer.flush()
        self.producer.commit()

    def send_offsets(self) -> None:
        consumer = self.scenario.consumer(group=self.scenario.name("group"))
        self.producer.send_offsets({(self.topic, 0): 1}, consumer)
        self.producer.commit()

    def commit(self) -> None:
        self.producer.commit()

    def abort(self) -> None:
        self.producer.abort()

    def another_transaction(self) -> None:
        """The late producer's, in which it may hear that it was replaced."""
        self.producer.begin()
        self.producer.send(self.topic, b"too late")
        self.producer.commit()

    def next_transactions(self, producer: Producer) -> int:
        """Transactions until one is committed, as an application writes it; how many were lost on the way."""
        for lost in range(3):
            try:
                producer.begin()
                producer.send(self.topic, b"next")
                producer.commit()
            except ClientRefused as refused:
                self.refusals.append(refused)
                producer.abort()
            else:
                return lost
        raise AssertionError("it never recovered")

    def committed(self) -> list[bytes | None]:
        return [each.value for each in self.scenario.reader(self.topic).read(1)]

    def successor(self) -> Producer:
        """A second instance of the same application."""
        return self.scenario.transactional(self.transactional_id)

    def is_rebuilt(self) -> None:
        """A new producer under the same transactional id works at once."""
        assert self.next_transactions(self.successor()) == 0
        assert self.committed() == [b"next"]


def refusal(call: Callable[[], object]) -> str | None:
    """The kind of error that a client's call raises, if any."""
    try:
        call()
    except ClientRefused as refused:
        return refused.kind
    return None


ACTS: Final[Mapping[str, Callable[[Late], None]]] = {
    "produce": Late.produce,
    "produce elsewhere": Late.produce_elsewhere,
    "send offsets": Late.send_offsets,
    "commit": Late.commit,
    "abort": Late.abort,
}

_ENDED: Final = {"CompleteAbort", "Empty", "Dead"}

ALONE: Final = "alone"
RESTARTED: Final = "after a restart of the broker"
UNREPLACED: Final = (ALONE, pytest.param(RESTARTED, marks=pytest.mark.restarts))
"""Parameters of a fixture: what happens between the timeout and the return."""


def warmed_up(scenario: Scenario) -> None:
    """A whole transaction: the first one of a young process may take longer than those of the tests may last."""
    producer, topic = scenario.transactional(), scenario.topic()
    producer.begin()
    producer.send(topic, b"first")
    producer.commit()


def prepared(client: Client, bootstrap: str) -> tuple[Scenario, dict[str, Late]]:
    """One producer for each act, all out of time soon."""
    scenario = Scenario(client, bootstrap)
    warmed_up(scenario)
    return scenario, {act: Late(scenario) for act in ACTS}


class OutOfTime(Protocol):
    """Something that holds a transaction open."""

    scenario: Scenario
    transactional_id: str


def wait_out(late: Iterable[OutOfTime]) -> None:
    """Until the transactions of these producers have timed out."""
    for each in late:
        asyncio.run(_until_ended(each.scenario.bootstrap, each.transactional_id))


async def _until_ended(bootstrap: str, transactional_id: str) -> None:
    async with OwnClient(bootstrap) as client:

        async def ended() -> bool:
            return (await TransactionAdmin(client).describe(transactional_id)).state in _ENDED

        await until(ended)
