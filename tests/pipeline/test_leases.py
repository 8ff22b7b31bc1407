"""Leases of partitions: who may write where, and what happens to the others when one task ends badly."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from waiting import HANG_S

from eosin.client.errors import BrokerError
from eosin.pipeline.common.errors import BadRows, ConflictingSettings, DriverOutOfReach, RowsLost
from eosin.pipeline.sink.lease_book import LeaseBook, WriteRefused, WritesStopped
from eosin.pipeline.sink.lease_client import BatchGivenUp, Leases
from eosin.pipeline.sink.lease_server import LeaseAddress, LeaseServer
from eosin.protocol.errors import ErrorCode

pytestmark = pytest.mark.virtual

LOOPBACK = "127.0.0.1"


class TestBook:
    """Decisions."""

    def setup_method(self) -> None:
        self.book = LeaseBook()
        self.granted: list[tuple[int, int, int]] = []
        for task in (0, 1, 2):
            self.book.begin(task)

    def take(self, task: int, partition: int) -> None:
        self.book.request(task, partition, lambda sequence: self.granted.append((task, partition, sequence)))

    def test_a_partition_has_one_writer_at_a_time_in_the_order_of_their_requests(self) -> None:
        for task in (0, 1, 2):
            self.take(task, 7)
        assert self.granted == [(0, 7, 0)]
        self.book.free(0, 7, 10)
        assert self.granted == [(0, 7, 0), (1, 7, 10)]
        self.book.free(1, 7, 30)
        assert self.granted == [(0, 7, 0), (1, 7, 10), (2, 7, 30)]

    def test_partitions_do_not_wait_for_each_other(self) -> None:
        self.take(0, 7)
        self.take(1, 8)
        assert self.granted == [(0, 7, 0), (1, 8, 0)]

    def test_the_next_holder_begins_where_the_last_one_ended(self) -> None:
        self.take(0, 7)
        self.book.free(0, 7, 10)
        self.take(0, 7)
        assert self.granted[-1] == (0, 7, 10)

    def test_a_task_that_has_begun_is_not_begun_again_even_when_it_was_done(self) -> None:
        with pytest.raises(WriteRefused, match="task 1 was tried before in this transaction"):
            self.book.begin(1)
        self.book.done(2, 5, 0)
        with pytest.raises(WriteRefused, match="task 2 was tried before in this transaction"):
            self.book.begin(2)

    def test_a_partition_can_only_be_given_back_by_its_holder(self) -> None:
        self.take(0, 7)
        with pytest.raises(WriteRefused, match="task 1 gives back partition 7, which was not its own"):
            self.book.free(1, 7, 10)

    def test_no_task_gets_a_lease_after_one_has_failed(self) -> None:
        self.take(0, 7)
        self.take(1, 7)
        self.book.fail(2, "no more space", ErrorCode.KAFKA_STORAGE_ERROR)
        self.book.fail(0, "for the sake of task 2")
        for late in (
            lambda: self.take(0, 9),
            lambda: self.book.free(0, 7, 10),
            lambda: self.book.done(1, 5, 0),
            lambda: self.book.begin(3),
        ):
            with pytest.raises(WritesStopped, match="since task 2 failed: no more space"):
                late()
        assert self.granted == [(0, 7, 0)]
        assert self.book.failure is not None
        told = self.book.failure.broker_error("writing")
        assert told is not None
        assert told.code is ErrorCode.KAFKA_STORAGE_ERROR

    def test_a_task_may_disconnect_only_when_it_is_done(self) -> None:
        self.book.done(0, 5, 2)
        self.book.gone(0)
        self.book.check()
        assert (self.book.rows, self.book.retries) == ({0: 5}, 2)
        self.book.gone(1)
        with pytest.raises(WritesStopped, match="task 1 failed: its connection to the driver was lost while it wrote"):
            self.book.check()


@pytest.fixture
async def server() -> AsyncIterator[LeaseServer]:
    """A driver."""
    running = LeaseServer()
    yield running
    await running.close()


@pytest.fixture
async def address(server: LeaseServer) -> LeaseAddress:
    """Where it answers."""
    return await server.start(LOOPBACK, LOOPBACK)


async def begin(address: LeaseAddress, task: int) -> None:
    async with Leases(address, task) as leases:
        await leases.begin()


async def take_again_and_again(leases: Leases) -> None:
    while True:
        async with leases.held(0):
            await asyncio.sleep(0.001)


async def test_sequence_numbers_continue_from_task_to_task(server: LeaseServer, address: LeaseAddress) -> None:
    sequences: list[int] = []

    async def write(task: int) -> None:
        async with Leases(address, task) as leases:
            for _ in range(10):
                async with leases.held(3) as lease:
                    before = lease.sequence
                    await asyncio.sleep(0)
                    sequences.append(lease.sequence)
                    assert lease.sequence == before
                    lease.sequence += task + 1
            await leases.done(10 * (task + 1), task)

    await asyncio.gather(*(write(task) for task in range(4)))
    assert sequences == sorted(set(sequences))
    assert server.book.rows == {0: 10, 1: 20, 2: 30, 3: 40}
    assert server.book.retries == 0 + 1 + 2 + 3
    assert server.book.failure is None


async def test_batches_of_one_task_for_one_partition_keep_their_order(address: LeaseAddress) -> None:
    order: list[int] = []

    async def send(leases: Leases, number: int) -> None:
        async with leases.held(0) as lease:
            order.append(number)
            lease.sequence += 1

    async with Leases(address, 0) as leases:
        await asyncio.gather(*(send(leases, number) for number in range(8)))
        await leases.done(8, 0)
    assert order == list(range(8))


async def test_a_second_attempt_of_a_task_is_refused(address: LeaseAddress) -> None:
    async with Leases(address, 4) as leases:
        await leases.begin()
        await leases.done(1, 0)
    with pytest.raises(RowsLost, match="task 4 was tried before in this transaction"):
        await begin(address, 4)


async def test_the_error_of_a_task_reaches_waiting_tasks_and_the_driver(
    server: LeaseServer, address: LeaseAddress
) -> None:
    async def wait(leases: Leases) -> None:
        async with leases.held(0):
            pass

    async with Leases(address, 0) as patient:
        error = BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, "appending to out-0")
        error.add_note("after three attempts")
        with contextlib.suppress(BrokerError):
            async with Leases(address, 1) as failing, failing.held(0):
                waiting = asyncio.create_task(wait(patient))
                await asyncio.sleep(0.01)
                raise error
        with pytest.raises(BatchGivenUp, match=r"since task 1 failed: .*BrokerError: appending to out-0(.|\n)*three"):
            await waiting
        with pytest.raises(BatchGivenUp):
            await patient.done(1, 0)
    assert server.book.failure is not None
    assert server.book.failure.code is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_an_error_that_is_not_the_brokers_names_its_class(server: LeaseServer, address: LeaseAddress) -> None:
    with contextlib.suppress(BadRows):
        async with Leases(address, 1) as leases:
            await leases.begin()
            raise BadRows("a row has no topic")
    with pytest.raises(BatchGivenUp, match="since task 1 failed"):
        await begin(address, 1)
    assert server.book.failure is not None
    assert "eosin.pipeline.common.errors.BadRows: a row has no topic" in server.book.failure.reason
    assert server.book.failure.broker_error("writing") is None


async def test_a_task_that_vanishes_ends_the_batch(server: LeaseServer, address: LeaseAddress) -> None:
    async with Leases(address, 0) as patient:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b'{"secret": "%s", "begin": 1}\n' % address.secret.encode())
        assert await reader.readline() == b'{"begun": 1}\n'
        writer.transport.abort()
        waiting = asyncio.create_task(take_again_and_again(patient))
        with pytest.raises(BatchGivenUp, match="task 1 failed: its connection to the driver was lost"):
            await waiting


@pytest.mark.parametrize(
    "said",
    [b'{"secret": "guessed", "begin": 1}\n', b'{"begin": 1}\n', b"GET / HTTP/1.1\r\n", b"[]\n", b"\xff\n", b"\n"],
)
async def test_a_connection_without_the_secret_is_closed_and_changes_nothing(
    server: LeaseServer, address: LeaseAddress, said: bytes
) -> None:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(said)
    assert await reader.read() == b""
    writer.close()
    assert server.book.failure is None
    async with Leases(address, 1) as leases:
        await leases.begin()
        await leases.done(0, 0)


async def test_a_task_that_fails_before_it_has_anything_to_send_may_be_tried_again(
    server: LeaseServer, address: LeaseAddress
) -> None:
    with contextlib.suppress(RuntimeError):
        async with Leases(address, 1):
            raise RuntimeError("its rows could not be computed")
    async with Leases(address, 1) as second, second.held(0) as lease:
        lease.sequence += 1
    assert server.book.failure is None


async def test_an_unreachable_driver_is_reported_with_a_remedy(server: LeaseServer, address: LeaseAddress) -> None:
    await server.close()
    with pytest.raises(
        DriverOutOfReach, match=r"task 3 cannot reach the driver at 127\.0\.0\.1:.* set spark\.driver\.host"
    ):
        await begin(address, 3)


@pytest.mark.parametrize("port", ["taken", 70_000])
async def test_an_unavailable_lease_port_is_reported_with_a_remedy(address: LeaseAddress, port: int | str) -> None:
    wanted = address.port if isinstance(port, str) else port
    with pytest.raises(
        ConflictingSettings, match=rf"cannot listen for its tasks at 127\.0\.0\.1:{wanted} .* lease\.port"
    ):
        await LeaseServer().start(LOOPBACK, LOOPBACK, wanted)


async def test_a_late_task_gets_no_lease_of_an_ended_batch(server: LeaseServer, address: LeaseAddress) -> None:
    async with Leases(address, 3) as late:
        await late.begin()
        await server.close()
        with pytest.raises(BatchGivenUp, match="its batch has ended, or"):
            async with late.held(0):
                pass


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}", "\N{PILE OF POO}"])
async def test_a_long_reason_is_shortened_and_reaches_every_task(
    server: LeaseServer, address: LeaseAddress, letter: str
) -> None:
    """The reasons of tasks are errors of brokers and of user code, of any length."""
    async with asyncio.timeout(HANG_S), Leases(address, 0) as waiting, Leases(address, 1) as holding, holding.held(0):
        asking = asyncio.create_task(take_again_and_again(waiting))
        with contextlib.suppress(ValueError):
            async with Leases(address, 2) as failing:
                await failing.begin()
                raise ValueError(f"it begins, {letter * 200_000}, and it ends")
        with pytest.raises(BatchGivenUp, match=r"since task 2 failed: ValueError: it begins, .*, and it ends"):
            await asking
    assert server.book.failure is not None
    assert len(server.book.failure.reason) < 5_000


@pytest.mark.parametrize("said", [b"x" * 70_000, b"{}\n", b"[]\n", b"nonsense\n", b'{"taken": 7, "sequence": 0}\n'])
async def test_a_task_gives_up_on_a_driver_whose_messages_are_invalid(said: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(said)
        await reader.read()
        writer.close()

    async with asyncio.timeout(HANG_S), await asyncio.start_server(answer, LOOPBACK, 0) as strange:
        address = LeaseAddress(LOOPBACK, strange.sockets[0].getsockname()[1], "secret")
        async with Leases(address, 0) as leases:
            with pytest.raises(BatchGivenUp, match="the driver said something that no task understands"):
                await leases.begin()
