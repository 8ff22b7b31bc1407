"""The life of a broker: what it refuses to start on, what it answers over real sockets, how it stops."""

import asyncio
import dataclasses
import os
import select
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import local_broker
import pytest
from fake_peer import turns
from manual_clock import ManualClock
from waiting import HANG_S, until

from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.network.watch import END_CHECK_MS, IDLE_ROUNDS
from eosin.node.node import Node
from eosin.node.running import RunningNode
from eosin.node.sockets import Sockets
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_request
from eosin.settings.broker import BrokerConfig
from eosin.settings.coordinators import cleaner_config, group_config, transaction_config
from eosin.settings.start_error import StartError
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.disk.memory import MemoryDisk

pytestmark = pytest.mark.process

LOCAL = "PLAINTEXT://127.0.0.1:0"
FEW: dict[str, Any] = {"transaction_state_log_num_partitions": 2, "offsets_topic_num_partitions": 2}


def config_of(data_dir: Path | None = None, **settings: Any) -> BrokerConfig:
    where = {"eosin_durability": "memory"} if data_dir is None else {"log_dirs": (str(data_dir),)}
    return BrokerConfig(**{"listeners": (LOCAL,), **where, **FEW, **settings})


class Client:
    """A socket that speaks the protocol, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, address: str) -> Self:
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, key: ApiKey, version: int, message: Message) -> None:
        self.writer.writelines(encode_request(key, version, 1, "test", message))

    async def answer(self, key: ApiKey, version: int) -> Any:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return decode_response(key, version, await self.reader.readexactly(size))[1]

    async def ask(self, key: ApiKey, version: int, message: Message) -> Any:
        self.send(key, version, message)
        return await self.answer(key, version)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@asynccontextmanager
async def running(config: BrokerConfig, **given: Any) -> AsyncIterator[RunningNode]:
    async with local_broker.running(config, **given) as server:
        yield server
        if not server.is_stopping:
            assert await server.shutdown()


async def test_a_client_is_answered_over_tcp() -> None:
    async with running(config_of()) as server:
        client = await Client.to(server.addresses[0])
        answer = await client.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("test", "1"))
        assert answer.error_code == 0
        await client.close()


def test_clients_cannot_compute_the_next_ids_from_those_they_saw() -> None:
    generator = Node.alone(config_of()).chance._random  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError):  # which the system's generator says of its state
        generator.getstate()


async def test_the_port_that_was_really_bound_is_told_and_advertised() -> None:
    async with running(config_of()) as server:
        port = int(server.addresses[0].rpartition(":")[2])
        assert port != 0
        client = await Client.to(server.addresses[0])
        metadata = await client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        assert [(broker.host, broker.port) for broker in metadata.brokers] == [("127.0.0.1", port)]
        await client.close()


async def test_a_client_is_told_the_address_of_the_listener_it_came_in_on() -> None:
    listeners = ("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0")
    config = config_of(listeners=listeners, advertised_listeners=("OUTSIDE://broker.example:19092",))
    async with running(config) as server:
        told = []
        for address in server.addresses:
            client = await Client.to(address)
            metadata = await client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
            told += [f"{broker.host}:{broker.port}" for broker in metadata.brokers]
            await client.close()
        assert told == [server.addresses[0], "broker.example:19092"]


async def test_topics_and_the_cluster_id_survive_a_restart_and_the_epoch_grows(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with running(config_of(tmp_path)) as server:
            client = await Client.to(server.addresses[0])
            await client.ask(
                ApiKey.CREATE_TOPICS,
                5,
                CreateTopicsRequest(topics=(CreatableTopic(name="orders", num_partitions=3, replication_factor=1),)),
            )
            metadata = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
            topics = {topic.name: (topic.topic_id, len(topic.partitions)) for topic in metadata.topics}
            seen.append(
                (
                    metadata.cluster_id,
                    topics["orders"],
                    server.services.cluster.leader_epoch(TopicPartition("orders", 0)),
                )
            )
            await client.close()
    first, second = seen
    assert first[:2] == second[:2]
    assert second[2] > first[2]


async def begun(server: RunningNode) -> None:
    """Wait until a request of some client is being handled."""
    await until(lambda: server.host.running)


async def refusal(config: BrokerConfig) -> str:
    with pytest.raises(StartError) as refused:
        await Node.alone(config).start()
    return str(refused.value)


async def test_an_address_in_use_is_refused_before_the_data_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = await refusal(config_of(tmp_path / "data", listeners=(f"PLAINTEXT://{address}",)))
    assert said == f"cannot listen on {address}: the address is in use, choose another with --listen"
    assert not (tmp_path / "data").exists()


async def test_an_address_that_is_taken_between_bind_and_listen_is_refused() -> None:
    with socket.socket() as faster:
        faster.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        config = config_of()

        class Slow(Sockets):
            def listen(self, broker: RunningNode) -> None:
                faster.bind(("127.0.0.1", int(broker.addresses[0].rpartition(":")[2])))
                faster.listen()
                super().listen(broker)

        with pytest.raises(StartError, match="the address is in use"):
            await Node.alone(config, endpoints=Slow(config)).start()


async def test_an_address_of_another_machine_is_refused() -> None:
    assert "cannot listen on 192.0.2.1:9092" in await refusal(config_of(listeners=("PLAINTEXT://192.0.2.1:9092",)))


async def test_a_host_without_an_address_is_refused() -> None:
    said = await refusal(config_of(listeners=("PLAINTEXT://no-such-host.invalid:9092",)))
    assert said.startswith("cannot listen on no-such-host.invalid:9092: ")


async def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)):
        said = await refusal(config_of(tmp_path))
    assert said.startswith(f"cannot use the data directory {tmp_path}: ")
    assert "another process" in said


async def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert (await refusal(config_of(file))).startswith(f"cannot use the data directory {file}: ")
    assert file.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o500)
    assert "Permission denied" in await refusal(config_of(tmp_path / "data"))


async def test_a_directory_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)):
        pass
    file = tmp_path / "meta.properties"
    text = file.read_text()
    file.write_text("\n".join(_raise_version(line) for line in text.splitlines()) + "\n")
    assert (await refusal(config_of(tmp_path))).startswith(f"cannot use the data directory {tmp_path}: ")


def _raise_version(line: str) -> str:
    key, _, value = line.partition("=")
    return f"{key}={int(value) + 1000}" if key.endswith("version") and value.isdigit() else line


async def test_a_clean_stop_leaves_its_mark_and_a_failed_start_does_not_take_the_port(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as server:
        address = server.addresses[0]
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    file = tmp_path / "file"
    file.write_text("mine")
    await refusal(config_of(file, listeners=(f"PLAINTEXT://{address}",)))
    async with running(config_of(tmp_path, listeners=(f"PLAINTEXT://{address}",))):
        pass


async def test_an_idle_client_is_closed_and_a_busy_one_is_not() -> None:
    clock = ManualClock()
    async with running(config_of(connections_max_idle_ms=400), clock=clock) as server:
        busy, idle = await Client.to(server.addresses[0]), await Client.to(server.addresses[0])
        for _ in range(IDLE_ROUNDS + 2):
            await busy.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
            await clock.run(100)
        assert await idle.reader.read() == b""
        assert (await busy.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0
        await busy.close()
        await idle.close()


async def test_checkpoints_are_saved_while_the_broker_runs(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(config_of(tmp_path), clock=clock) as server:
        checkpoint = tmp_path / "recovery-point-offset-checkpoint"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0

        async def is_saved() -> bool:
            await clock.run(10_000)
            return checkpoint.exists() and checkpoint.stat().st_mtime_ns > before

        await until(is_saved)
        assert server.host.connections == {}


async def test_one_client_too_many_is_closed() -> None:
    async with running(config_of(max_connections=1)) as server:
        first = await Client.to(server.addresses[0])
        await first.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        second = await Client.to(server.addresses[0])
        assert await second.reader.read() == b""
        assert (await first.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0
        await first.close()
        await second.close()


async def test_a_fetch_that_waits_is_answered_when_the_broker_stops() -> None:
    async with running(config_of()) as server:
        client = await Client.to(server.addresses[0])
        await client.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(CreatableTopic("t", 1, 1),)))
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(wanted,)),))
        client.send(ApiKey.FETCH, 11, fetch)
        await begun(server)
        stopping = asyncio.ensure_future(server.shutdown())
        answer = await client.answer(ApiKey.FETCH, 11)
        assert answer.error_code == 0
        assert await stopping
        assert await client.reader.read() == b""
        await client.close()


async def test_the_system_asks_whether_a_silent_client_is_still_there() -> None:
    async with running(config_of()) as server:
        client = await Client.to(server.addresses[0])
        await client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        (connection,) = server.host.connections
        assert connection._transport is not None
        accepted = connection._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        await client.close()


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="the system does not tell of such an end")
async def test_a_client_that_is_gone_is_noticed_behind_fetches_that_wait() -> None:
    """While the first waits, the second is not begun and the socket is not read, so nobody meets its end."""
    clock = ManualClock()
    async with running(config_of(), clock=clock) as server:
        client = await Client.to(server.addresses[0])
        await client.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(CreatableTopic("t", 1, 1),)))
        timers = clock.pending
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        fetch = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(wanted,)),))
        for _ in range(3):
            client.send(ApiKey.FETCH, 11, fetch)
        await begun(server)
        await clock.run(END_CHECK_MS)
        assert server.host.connections, "as long as it is there it may wait"
        await client.close()

        async def is_gone() -> bool:
            await clock.run(END_CHECK_MS)
            return not server.host.connections

        await until(is_gone)
        assert not server.host.running
        assert clock.pending == timers, "nothing waits for days"


async def test_a_member_that_waits_for_others_is_answered_when_the_broker_stops() -> None:
    async with running(config_of(group_initial_rebalance_delay_ms=60_000)) as server:
        client = await Client.to(server.addresses[0])
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", b""),),
        )
        client.send(ApiKey.JOIN_GROUP, 2, join)
        await begun(server)
        stopping = asyncio.ensure_future(server.shutdown())
        assert (await client.answer(ApiKey.JOIN_GROUP, 2)).error_code != 0
        assert await stopping
        await client.close()


async def test_requests_that_do_not_end_are_cut_off_at_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    async with running(config_of(eosin_shutdown_timeout_ms=50)) as server:
        never = asyncio.get_running_loop().create_future()
        server.host.running[never] = ApiKey.PRODUCE
        assert not await server.shutdown()
    assert "requests did not finish in time" in caplog.text


class HeldChecks(MemoryDisk):
    """A disk whose thread checks nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = 0
        self.may_go_on = asyncio.Event()

    async def compute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.checks += 1
        await self.may_go_on.wait()
        return function(*args, **kwargs)


async def test_a_stop_does_not_check_what_clients_have_sent_that_are_gone() -> None:
    disk = HeldChecks()
    large = PartitionProduceData(0, bytes(build_batch([NewRecord(None, b"v")] * 20_000, timestamp=1_700_000_000_000)))
    request = ProduceRequest(None, -1, 30_000, (TopicProduceData("t", bytes(16), (large,)),))
    async with running(config_of(), disk=disk) as server:
        client = await Client.to(server.addresses[0])
        await client.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(CreatableTopic("t", 1, 1),)))
        gone = [await Client.to(server.addresses[0]) for _ in range(20)]
        for each in gone:
            each.send(ApiKey.PRODUCE, 11, request)

        async def all_wait() -> bool:
            return len(server.host.running) == len(gone)

        await until(all_wait)
        for each in gone:
            await each.close()

        async def all_are_gone() -> bool:
            return len(server.host.connections) == 1

        await until(all_are_gone)
        assert len(server.host.running) == len(gone), "a lost client undoes nothing"
        stopping = asyncio.ensure_future(server.shutdown())
        await turns()
        disk.may_go_on.set()
        assert await stopping
        assert disk.checks == 1
        await client.close()


async def test_nothing_is_accepted_while_the_broker_stops() -> None:
    async with running(config_of()) as server:
        address = server.addresses[0]
        await server.shutdown()
        with pytest.raises(ConnectionRefusedError):
            await Client.to(address)


async def test_a_stopped_broker_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with running(config_of()) as server:
        client = await Client.to(server.addresses[0])
        await client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    await client.close()
    await turns()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (partial(transaction_config, transaction_version=2), TransactionConfig),
        (group_config, GroupConfig),
        (cleaner_config, CleanerConfig),
    ],
)
def test_the_defaults_of_other_rooms_are_the_brokers(make: Any, kind: Any) -> None:
    assert make(BrokerConfig()) == kind()
    assert {each.name for each in dataclasses.fields(kind)} == {each.name for each in dataclasses.fields(kind())}


ALONE = """
import asyncio, sys
from eosin.node.configuration import load_config
from eosin.node.node import Node

async def run():
    config = load_config(assignments=["listeners=127.0.0.1:0"], flags={"eosin.durability": "memory"}).config
    server = await Node.alone(config).start()
    await server.shutdown()

asyncio.run(run())
rooms = ("membership", "quorum", "replication", "peers", "joined", "metadata.joined_cluster")
print([name for name in sys.modules if name.startswith(tuple(f"eosin.broker.{room}" for room in rooms))])
"""


@pytest.mark.slow
def test_a_broker_that_runs_alone_loads_nothing_of_a_cluster_of_several_machines() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.strip() == "[]"
