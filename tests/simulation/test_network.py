"""The simulated network carries everything that the broker may send."""

import asyncio
from dataclasses import replace

from eosin.protocol.names import TopicPartition
from eosin.storage.results.file_range import MIN_BYTES
from simulation.checker import judge
from simulation.client import Session
from simulation.plan import plan_of
from simulation.producers import IdempotentProducer
from simulation.run import Run

OUTPUT = TopicPartition("a", 0)
VALUES = [f"value {number}" for number in range(MIN_BYTES // 10)]
"""Together more than a response copies: the broker sends them out of the file."""


class OneLargeBatch(Run):
    """A run in which nothing goes wrong, with one client, which writes one batch."""

    def __init__(self) -> None:
        nobody = replace(plan_of(0), apps=(), idempotent=0, readers=0, watchers=0, deletions=0)
        super().__init__(replace(nobody, segment_bytes=1 << 20, stall=0.0, faults=()))

    def _clients(self) -> "list[asyncio.Task[None]]":
        super()._clients()
        return [asyncio.create_task(self._script())]

    async def _script(self) -> None:
        producer = IdempotentProducer(self.world, "script")
        await producer.introduce()
        await producer.write(OUTPUT, [VALUES])


def test_responses_that_the_broker_sends_out_of_a_file_arrive_whole() -> None:
    history = OneLargeBatch().carry_out()
    assert judge(history) == []
    assert [seen.value for seen in history.final.partitions[OUTPUT].committed] == VALUES


class TwoThatEnd(OneLargeBatch):
    """Two clients write their batches, and are gone: one without a word, one closes its connection."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: list[int] = []
        """How many the broker has, at first and after each."""

    async def _script(self) -> None:
        server = self.machine.server
        assert server is not None
        self.connections.append(len(server.host.connections))
        for end in (Session.leave, Session.hang_up):
            producer = IdempotentProducer(self.world, end.__name__)
            await producer.introduce()
            end(producer.session)
            await asyncio.sleep(1.0)
            self.connections.append(len(server.host.connections))


def test_a_broker_hears_of_a_connection_that_is_closed_and_of_none_that_is_left() -> None:
    run = TwoThatEnd()
    assert judge(run.carry_out()) == []
    assert [count - run.connections[0] for count in run.connections] == [0, 1, 1]
