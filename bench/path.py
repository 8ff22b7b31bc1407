"""The path of a request: how many functions and files of this repository one warm request goes through.

A whole broker runs in this process and reads from a fake transport, so a profiler sees one request from its bytes to
the bytes of its response, and nothing else. Each call of a function of ours counts; comprehensions and generated code
do not. The markers of an EndTxn are written after its response and counted apart. Nothing waits for the disk
(durability `os`). A profiler cannot see compiled modules, so this needs a checkout that is not compiled.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from fake_peer import FakePeer
from local_broker import local_broker

import eosin.broker
from bench.report import Row
from eosin.network import connection as connection_module
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.types import Message

GROUP: Final = "The path of a request"
REFERENCE_NAME: Final = "first count"
REFERENCES: Final = {"Produce v12": (105, 26), "EndTxn v5": (113, 33), "Fetch v12": (87, 20)}
"""Calls and files of each request when they were first counted."""
FILES_BUDGETS: Final = {"EndTxn v5": 20}

_ROOT: Final = Path(eosin.broker.__path__[0]).parent
_ROOMS: Final = tuple(
    f"{_ROOT / room}/"
    for room in ("runtime", "protocol", "storage", "coordinator", "model", "security", "network", "cluster", "broker")
)
_TOPIC: Final = "path"
_ID: Final = "path-tx"
_ROUNDS: Final = 50
_LONGEST_WAIT_TURNS: Final = 10_000
_TURNS_AFTER: Final = 3
"""Turns of the event loop after a response: the markers of an EndTxn are written in the first."""


class Calls:
    """The functions that are entered, and how often each."""

    def __init__(self) -> None:
        self.functions: Counter[tuple[str, str]] = Counter()
        """By file and qualified name, in the order of their first calls."""

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Take one event of the profiler."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_ROOMS) and not code.co_name.startswith("<"):
            self.functions[code.co_filename[len(str(_ROOT)) + 1 :], code.co_qualname] += 1

    @property
    def count(self) -> int:
        """The number of calls."""
        return self.functions.total()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the functions are in."""
        return tuple(dict.fromkeys(file for file, _ in self.functions))


class Client:
    """A transactional producer and a consumer of read_committed, on one connection."""

    def __init__(self, peer: FakePeer, transactional_id: str = _ID) -> None:
        self.peer = peer
        self._id = transactional_id
        self._pair = (-1, -1)
        self._sequence = 0
        self._fetch_offset = 0

    async def ask(self, key: ApiKey, version: int, message: Message) -> Any:
        """One request and its response."""
        self.peer.send(key, version, message)
        for _ in range(_LONGEST_WAIT_TURNS):
            found = self.peer.answers()
            if found:
                return found[0]
            await asyncio.sleep(0)
        raise AssertionError(f"no response to {key.name}")

    async def begin(self) -> None:
        """A topic, and a producer id."""
        topic = CreatableTopic(name=_TOPIC, num_partitions=1, replication_factor=1)
        await self.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000))
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=60_000)
        found = await self.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
        self._pair = found.producer_id, found.producer_epoch

    def produce(self) -> tuple[ApiKey, int, Message]:
        """The next batch of the transaction."""
        producer_id, epoch = self._pair
        batch = build_batch(
            [NewRecord(key=None, value=b"x" * 100)],
            timestamp=int(time.time() * 1000),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        topics = (TopicProduceData(name=_TOPIC, partition_data=(PartitionProduceData(index=0, records=batch),)),)
        return (
            ApiKey.PRODUCE,
            12,
            ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=30_000, topic_data=topics),
        )

    def commit(self) -> tuple[ApiKey, int, Message]:
        """The end of the transaction."""
        return ApiKey.END_TXN, 5, EndTxnRequest(self._id, *self._pair, committed=True)

    def fetch(self) -> tuple[ApiKey, int, Message]:
        """The request that fetches the records that were committed last."""
        partition = FetchPartition(partition=0, fetch_offset=self._fetch_offset, partition_max_bytes=1 << 20)
        topics = (FetchTopic(topic=_TOPIC, partitions=(partition,)),)
        return ApiKey.FETCH, 12, FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=1, topics=topics)

    def take(self, key: ApiKey, response: Any) -> None:
        """Go on from a response."""
        if key is ApiKey.END_TXN:
            assert response.error_code == ErrorCode.NONE, response
            self._pair, self._sequence = (response.producer_id, response.producer_epoch), 0
            return
        topic = response.responses[0]
        partition = (topic.partition_responses if key is ApiKey.PRODUCE else topic.partitions)[0]
        assert partition.error_code == ErrorCode.NONE, partition
        if key is ApiKey.PRODUCE:
            self._fetch_offset = partition.base_offset
        else:
            assert partition.records, partition

    async def profiled(self, request: Callable[[], tuple[ApiKey, int, Message]]) -> tuple[Calls, Calls]:
        """Send a request; the calls until its response, and those until what follows is done, these included."""
        key, version, message = request()
        frame = self.peer.frame(key, version, message)
        until_response, in_all = Calls(), Calls()
        sys.setprofile(until_response.note)
        self.peer.transport.feed(frame)
        sys.setprofile(in_all.note)
        for _ in range(_TURNS_AFTER):
            await asyncio.sleep(0)
        sys.setprofile(None)
        in_all.functions = until_response.functions + in_all.functions
        found = self.peer.answers()
        assert found, f"the response to {key.name} did not come at once"
        self.take(key, found[0])
        return until_response, in_all


async def count() -> dict[str, tuple[Calls, Calls]]:
    """Return the result of `profiled` for each request of `REFERENCES`, from the shortest of some rounds: now and then
    a batch gets an index entry as well."""
    found: dict[str, tuple[Calls, Calls]] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with local_broker(eosin_durability="os", log_dirs=(folder,)) as server:
            client = Client(FakePeer(server.host))
            await client.begin()
            requests = (client.produce, client.commit, client.fetch)
            for _ in range(_ROUNDS):
                await client.profiled(client.produce)
                for name, request in zip(REFERENCES, requests, strict=True):
                    calls = await client.profiled(request)
                    found[name] = min(found.get(name, calls), calls, key=lambda each: each[1].count)
    return found


def run(quick: bool = False) -> list[Row]:
    """Count, and print the files of each request in the order of its path. A quick run is no different."""
    assert not str(connection_module.__file__).endswith(".so"), "compiled modules cannot be counted"
    rows = []
    for name, (until_response, in_all) in asyncio.run(count()).items():
        calls, files = REFERENCES[name]
        print(f"{name}: {' '.join(until_response.files)}", flush=True)
        budget = FILES_BUDGETS.get(name)
        rows.append(Row(GROUP, f"{name}, calls", until_response.count, "", calls, REFERENCE_NAME))
        rows.append(Row(GROUP, f"{name}, files", len(until_response.files), "", files, REFERENCE_NAME))
        if budget is not None:
            rows.append(Row(GROUP, f"{name}, files at most", len(until_response.files), "", budget=budget))
            rows.append(Row(GROUP, f"{name} and its markers, calls", in_all.count, ""))
            rows.append(Row(GROUP, f"{name} and its markers, files", len(in_all.files), ""))
    return rows
