"""A scripted pair of transactions, and a crash at each call that they make to the disk (transactions.md 13.1 case 9).

The process is killed at each append, half-way through it; the machine loses power at each append, sync, rename and so
on. The client waits for the next broker and goes on: all its calls end well, and no transaction is ever half visible.
"""

import asyncio

import pytest

from eosin.protocol.names import TopicPartition
from simulation.checker import judge
from simulation.history import Transaction
from simulation.plan import Plan
from simulation.producers import TransactionalProducer
from simulation.readers import Consumer
from simulation.run import Run

OUTPUTS = (TopicPartition("a", 0), TopicPartition("b", 1))
SOURCE = TopicPartition("a", 1)
NEVER = 1 << 30
LEAST_APPENDS = 8


class ScriptedRun(Run):
    """A run with one client and one fault."""

    def __init__(self, *, version: int, power: bool, last_call: int) -> None:
        """The broker stops in the call behind `last_call` others."""
        plan = Plan(
            seed=13,
            durability="fsync",
            apps=(),
            idempotent=0,
            readers=2,
            watchers=0,
            segment_bytes=1500,
            sync_ms=4.0,
            delay_ms=1.0,
            stall=0.0,
            cold=0.0,
            few_epochs=False,
            recovers=True,
            retains=False,
            expires=False,
            deletions=0,
            faults=(),
        )
        super().__init__(plan)
        self.calls: list[str] = []
        """What the broker has done to the disk for the script."""
        self.stopped_in = ""
        self.group_offset = -1
        self._version = version
        self._last_call = last_call
        self._after_stop = "power" if power else "kill"
        self._script_is_over = asyncio.Event()

    def _clients(self) -> "list[asyncio.Task[None]]":
        super()._clients()
        return [asyncio.create_task(self._script())]

    async def _misfortune(self) -> None:
        disk = self.machine.disk
        disk.stop_after(self._last_call)
        changes = disk.changes

        def counted(call: str, path: str) -> bool:
            is_last = changes(call, path)
            if not self._script_is_over.is_set():
                self.calls.append(call)
            if is_last:
                self.stopped_in = f"{call} {path}"
            return is_last

        disk.changes = counted  # type: ignore[method-assign]
        await self._script_is_over.wait()
        await self._heal()

    async def _script(self) -> None:
        producer = TransactionalProducer(
            self.world, "script", "script", version=self._version, timeout_ms=60_000, patience_ms=60_000
        )
        producer.oversleeps = 0.0
        await producer.introduce()
        committed = self._begin_transaction(producer)
        assert await producer.run(committed, {each: [[f"c{each}"], [f"C{each}"]] for each in OUTPUTS}, commit=True)
        aborted = self._begin_transaction(producer)
        assert await producer.run(aborted, {each: [[f"a{each}"]] for each in OUTPUTS}, commit=False)
        self.group_offset = await Consumer(self.world, "group", group="script").committed(SOURCE)
        self._script_is_over.set()

    def _begin_transaction(self, producer: TransactionalProducer) -> Transaction:
        transaction = producer.begin()
        transaction.group, transaction.offsets = "script", {SOURCE: 4 + producer.transactions}
        return transaction


def carried_out(*, version: int, power: bool, last_call: int) -> ScriptedRun:
    run = ScriptedRun(version=version, power=power, last_call=last_call)
    violations = judge(run.carry_out())
    assert not violations, f"stopped in call {last_call} ({run.stopped_in}): {violations}"
    return run


def check_end(run: ScriptedRun) -> None:
    """The committed transaction is visible, the aborted one is not, and the group is where the first has put it."""
    shown = {seen.value for final in run.history.final.partitions.values() for seen in final.committed}
    assert shown == {f"{letter}{each}" for each in OUTPUTS for letter in "cC"}, run.stopped_in
    assert run.group_offset == 5, run.stopped_in


def stop_at(call: str, *, version: int, power: bool) -> int:
    """Stop at each of these calls ("" for all); how many they were."""
    calls = carried_out(version=version, power=power, last_call=NEVER).calls
    stops = [number for number, each in enumerate(calls) if each.startswith(call)]
    for number in stops:
        run = carried_out(version=version, power=power, last_call=number)
        assert run.stopped_in.startswith(calls[number]), f"call {number}"
        check_end(run)
    return len(stops)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [1, 2], ids=["TV1", "TV2"])
def test_a_kill_in_any_append_leaves_no_transaction_half_done(version: int) -> None:
    assert stop_at("append", version=version, power=False) >= LEAST_APPENDS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.full), 2], ids=["TV1", "TV2"])
def test_a_power_loss_at_any_call_to_the_disk_leaves_no_transaction_half_done(version: int) -> None:
    assert stop_at("", version=version, power=True) >= 4 * LEAST_APPENDS


@pytest.mark.parametrize("version", [1, 2], ids=["TV1", "TV2"])
def test_without_a_stop_the_script_ends_as_it_should(version: int) -> None:
    check_end(carried_out(version=version, power=False, last_call=NEVER))
