"""The process ends at each record and at each marker of a script; clients send again what was not answered.

Whatever happens: every request ends in an answer that a client can live with, a transaction is visible in all its
partitions or in none, and nothing stays open.
"""

import itertools
from collections.abc import Awaitable, Callable

import pytest
from coordinator_fakes import ORDERS_0, ORDERS_1, PAYMENTS_0, FakeBroker, Killed, Producer

from eosin.coordinator.transactions.deferred_writes import DEFERRED_MS
from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.protocol.errors import ErrorCode

PARTITIONS = (ORDERS_0, ORDERS_1, PAYMENTS_0)
RECORDS = 8
"""How many records an undisturbed run of the script writes when the next transaction always begins soon."""
COMPLETIONS = 2
"""How many more it writes when none does."""
MARKERS = 9


class Script:
    """A producer commits, a transaction is aborted, a new instance takes over in the middle of a third."""

    def __init__(self, client_transaction_version: int, *, slow: bool = False) -> None:
        """`slow`: between two transactions there is time to write that the first is complete."""
        self.broker = FakeBroker()
        self.slow = slow
        self.client_transaction_version = client_transaction_version
        self.restarts = 0

    async def run(self) -> None:
        await self.broker.start()
        first = Producer(self.broker, client_transaction_version=self.client_transaction_version)
        await self.until_answered(first.init)
        await self.transaction(first, "committed", first.commit)
        await self.transaction(first, "aborted", first.abort)
        await self.transaction(first, "interrupted", None)
        second = Producer(self.broker, client_transaction_version=self.client_transaction_version)
        await self.until_answered(second.init)
        assert await self.until_answered(first.commit, ErrorCode.PRODUCER_FENCED) is ErrorCode.PRODUCER_FENCED

    async def transaction(self, producer: Producer, value: str, end: Callable[[], Awaitable[ErrorCode]] | None) -> None:
        await self.until_answered(lambda: producer.add(*PARTITIONS))
        for partition in PARTITIONS:
            assert producer.produce(partition, value) is ErrorCode.NONE
        if end is not None:
            await self.until_answered(end)
        if end is not None and self.slow:
            try:
                self.broker.clock.advance(DEFERRED_MS)
            except Killed:
                self.restarts += 1
                await self.restart()

    async def until_answered(self, request: Callable[[], Awaitable[ErrorCode]], *accepted: ErrorCode) -> ErrorCode:
        for _ in range(10):
            try:
                answer = await request()
            except Killed:
                self.restarts += 1
                await self.restart()
                continue
            if answer is ErrorCode.NONE or answer in accepted:
                return answer
            assert answer.retriable, f"a client cannot go on after {answer.name}"
        raise AssertionError("no answer")

    async def restart(self) -> None:
        while True:
            try:
                await self.broker.restart()
            except Killed:
                self.restarts += 1
            else:
                return

    def check(self) -> None:
        for partition in PARTITIONS:
            fake = self.broker.partitions[partition]
            assert (fake.committed, fake.aborted, fake.open) == (["committed"], ["aborted", "interrupted"], {})
        (txn,) = self.broker.log.contents().values()
        assert txn.state is TransactionState.EMPTY


@pytest.mark.parametrize("client_transaction_version", [0, 2])
@pytest.mark.parametrize("slow", [False, True], ids=["at once", "slowly"])
async def test_the_script_runs_undisturbed(client_transaction_version: int, slow: bool) -> None:
    script = Script(client_transaction_version, slow=slow)
    await script.run()
    script.check()
    records = RECORDS + COMPLETIONS if slow else RECORDS
    assert (script.broker.log.appends, script.broker.partitions.written) == (records, MARKERS)


@pytest.mark.parametrize("kept", [True, False], ids=["record kept", "record lost"])
@pytest.mark.parametrize("client_transaction_version", [0, 2])
@pytest.mark.parametrize("slow", [False, True], ids=["at once", "slowly"])
async def test_the_process_may_end_at_any_record(client_transaction_version: int, kept: bool, slow: bool) -> None:
    for at in range(1, RECORDS + slow * COMPLETIONS + 1):
        script = Script(client_transaction_version, slow=slow)
        script.broker.log.kill_at, script.broker.log.kill_keeps = at, kept
        await script.run()
        script.check()
        assert script.restarts == 1


@pytest.mark.parametrize("client_transaction_version", [0, 2])
async def test_the_process_may_end_at_any_marker(client_transaction_version: int) -> None:
    for at in range(1, MARKERS + 1):
        script = Script(client_transaction_version)
        script.broker.partitions.kill_at = at
        await script.run()
        script.check()
        assert script.restarts == 1


@pytest.mark.parametrize("kept", [True, False], ids=["record kept", "record lost"])
@pytest.mark.parametrize("client_transaction_version", [0, 2])
async def test_the_process_may_end_twice_in_a_script(client_transaction_version: int, kept: bool) -> None:
    for record, marker in itertools.product(range(1, RECORDS + 1), range(1, MARKERS + 1)):
        script = Script(client_transaction_version)
        script.broker.log.kill_at, script.broker.log.kill_keeps = record, kept
        script.broker.partitions.kill_at = marker
        await script.run()
        script.check()
        assert script.restarts == 2
