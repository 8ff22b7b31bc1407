"""Hostile batches, and searches in what was written: all that a user who may write can make the broker compute."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from hostile_batches import (
    T,
    empty_tables,
    many_blocks,
    many_headers,
    many_members,
    many_records,
    much_inflated,
)

from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hostile.field import Attack, Case, Field, Who
from hostile.peer import Peer, frame_of
from hostile.secured_broker import LARGE_BATCHES, OWNED, RECOMPRESSED, SMALL_BATCHES

PIPELINED: Final = 10
LARGEST_TIMESTAMP: Final = -3


def produce(batch: bytes, topic: str = SMALL_BATCHES, partitions: int = 1) -> bytes:
    """A batch for one partition, or for many that are not there besides."""
    data = tuple(PartitionProduceData(index=number, records=batch) for number in range(partitions))
    topics = (TopicProduceData(topic, partition_data=data),)
    return frame_of(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics))


def list_offsets(timestamp: int, topic: str = SMALL_BATCHES) -> bytes:
    """A search by time."""
    asked = (ListOffsetsTopic(topic, (ListOffsetsPartition(0, timestamp=timestamp),)),)
    return frame_of(ApiKey.LIST_OFFSETS, 8, ListOffsetsRequest(-1, 0, asked))


def asked_again(*frames: bytes) -> Callable[[Peer], Coroutine[Any, Any, None]]:
    """Sends requests in one packet, and takes all answers."""

    async def does(peer: Peer) -> None:
        await peer.ask(*frames)

    return does


def batches(make: Callable[[int], bytes], count: int, topic: str = SMALL_BATCHES, connections: int = 1) -> Attack:
    """Ten batches of a kind at a time, on so many connections."""

    async def attack(field: Field) -> None:
        frame = produce(make(field.sized(count)), topic)
        await field.as_user(Who.WRITER, asked_again(*[frame] * PIPELINED), connections=connections)

    return attack


def noise_twice(size: int) -> bytes:
    """A batch that can be compressed, with effort."""
    value = random.Random(1).randbytes(size // 2) * 2
    return bytes(build_batch([NewRecord(None, value)], timestamp=T))


async def searches(field: Field) -> None:
    """Searches through a batch of a million records."""
    writer = await field.open(Who.WRITER)
    await writer.ask(produce(many_records(field.sized(1 << 20))))
    frames = [list_offsets(LARGEST_TIMESTAMP), list_offsets(T)] * (PIPELINED // 2)
    await field.as_user(Who.WRITER, asked_again(*frames), connections=2)


async def too_large_to_read(field: Field) -> None:
    """Batches of more bytes than readers inflate, and searches in them."""
    batch = produce(much_inflated(field.sized(200 << 20)), LARGE_BATCHES)
    await field.as_user(Who.WRITER, asked_again(batch, list_offsets(LARGEST_TIMESTAMP, LARGE_BATCHES)))


async def many_partitions(field: Field) -> None:
    """Produce and Fetch of very many partitions in one request."""
    number = field.sized(100_000)
    one = bytes(build_batch([NewRecord(None, b"")], timestamp=T))
    partitions = tuple(FetchPartition(partition=each, partition_max_bytes=1 << 20) for each in range(number))
    fetch = FetchRequest(max_bytes=50 << 20, topics=(FetchTopic(OWNED, partitions=partitions),))
    frames = (produce(one, OWNED, number), frame_of(ApiKey.FETCH, 11, fetch))
    async with asyncio.TaskGroup() as group:
        for frame in frames:
            group.create_task(field.as_user(Who.OWNER, asked_again(frame)))


CASES: Final = (
    Case("gzip-members", "S1a", Who.WRITER, "gzip of 45,000 empty members", batches(many_members, 45_000)),
    Case("gzip-tables", "S1a", Who.WRITER, "gzip of 15,000 empty tables of codes", batches(empty_tables, 15_000)),
    Case("headers", "S1b", Who.WRITER, "a record of 1.9 million headers", batches(many_headers, 1_900_000)),
    Case("snappy-blocks", "S1c", Who.WRITER, "190,000 empty blocks of snappy", batches(many_blocks, 190_000)),
    Case(
        *("recompression", "S1d", Who.WRITER, "250 KB for a topic of zstd at level 22"),
        batches(noise_twice, 250_000, RECOMPRESSED),
    ),
    Case("searches", "S1e", Who.WRITER, "ListOffsets by time in a batch of 2^20 records", searches),
    Case(
        *("bombs", "S1f", Who.WRITER, "batches that inflate to 60 MiB, on ten connections"),
        batches(much_inflated, 60 << 20, connections=10),
    ),
    Case("large-batches", "S6", Who.WRITER, "batches that inflate to 200 MiB, where they may", too_large_to_read),
    Case("many-partitions", "S3b", Who.OWNER, "Produce and Fetch of 100,000 partitions", many_partitions),
)
