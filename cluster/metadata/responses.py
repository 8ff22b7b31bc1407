"""`MetadataResponses`: the encoded answers to Metadata of all topics, kept until what they tell changes.

Consoles and brokers' tools ask for all topics again and again. With 100,000 partitions an answer has 4 MB and takes
hundreds of milliseconds to make; so it is made in turns with everybody else, encoded in a thread, and kept. Always
true: an answer tells of nothing that was gone when its request came; and what is kept stays within a limit.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from eosin.model.cluster import Cluster, ClusterListener, Topic
from eosin.network.many_items import dropped
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.metadata import MetadataResponse, MetadataResponseTopic
from eosin.protocol.wire.codec import EncodedBody, encode_body
from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns

FEW_PARTITIONS: Final = 1000
"""Up to so many, an answer takes a few milliseconds, and none is kept."""


class RequestVariant(NamedTuple):
    """The properties of a request that an answer depends on besides the cluster."""

    api_version: int
    listener: str
    topic_operations: bool
    cluster_operations: bool


class _Kept(NamedTuple):
    version: int
    body: EncodedBody


class MetadataResponses(ClusterListener):
    """The answers of one broker."""

    def __init__(self, cluster: Cluster, clock: Clock, *, limit_bytes: int) -> None:
        self._cluster = cluster
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._kept: dict[RequestVariant, _Kept] = {}
        self._making: dict[tuple[RequestVariant, int], asyncio.Task[EncodedBody]] = {}

    def kept(self, kind: RequestVariant) -> EncodedBody | None:
        """The answer, if it still holds."""
        kept = self._kept.get(kind)
        return kept.body if kept is not None and kept.version == self._cluster.metadata_version else None

    async def make(
        self,
        kind: RequestVariant,
        found: Callable[[Topic], Iterator[MetadataResponseTopic | None]],
        respond: Callable[[list[MetadataResponseTopic]], MetadataResponse],
    ) -> EncodedBody:
        """Make the answer, or wait for whoever is making it: `found` of each topic, with None after each step that it
        takes, and `respond` of all of them."""
        key = kind, self._cluster.metadata_version
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = asyncio.get_running_loop().create_task(self._make(kind, found, respond))
            making.add_done_callback(lambda _: self._making.pop(key))
        return await asyncio.shield(making)

    async def _make(
        self,
        kind: RequestVariant,
        found: Callable[[Topic], Iterator[MetadataResponseTopic | None]],
        respond: Callable[[list[MetadataResponseTopic]], MetadataResponse],
    ) -> EncodedBody:
        version, known = self._cluster.metadata_version, self._cluster.topics
        brokers = self._cluster.brokers(kind.listener)
        topics: list[MetadataResponseTopic] = []

        def steps() -> Iterator[MetadataResponseTopic | None]:
            for name in list(known):
                topic = known.get(name)  # as it is now: it may have been deleted or changed in an earlier turn
                if topic is not None:
                    yield from found(topic)

        def add(topic: MetadataResponseTopic | None) -> None:
            if topic is not None:
                topics.append(topic)

        await in_turns(steps(), add, self._clock)
        made: list[Any] = [respond(topics)]
        topics.clear()
        body = EncodedBody(await asyncio.to_thread(encode_body, ApiKey.METADATA, kind.api_version, made[0]))
        await dropped(made)
        if version == self._cluster.metadata_version and brokers == self._cluster.brokers(kind.listener):
            self._keep(kind, _Kept(version, body))
        return body

    def brokers_changed(self) -> None:
        """Each answer tells of all brokers."""
        self._kept.clear()

    def _keep(self, kind: RequestVariant, made: _Kept) -> None:
        self._kept = {each: kept for each, kept in self._kept.items() if kept.version == made.version and each != kind}
        self._kept[kind] = made
        while self._kept and sum(len(kept.body.data) for kept in self._kept.values()) > self._limit_bytes:
            del self._kept[next(iter(self._kept))]
