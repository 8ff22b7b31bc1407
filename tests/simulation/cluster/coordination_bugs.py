"""Bugs between the coordinators of a cluster and its other brokers: markers, producer ids, offsets of transactions."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import msgspec

from eosin.broker.markers import MarkerKey
from eosin.broker.transactions.coordinator_connections import CoordinatorConnections
from eosin.client.connection import _SocketStream
from eosin.client.errors import ClientError
from eosin.cluster.peers import remote_markers
from eosin.cluster.peers.remote_markers import RemoteMarkers
from eosin.cluster.peers.remote_verifier import CoordinatorRoutes, RemoteVerifier
from eosin.coordinator.groups.offset_requests import OffsetRequests
from eosin.coordinator.transactions import effect_runner
from eosin.coordinator.transactions.log import encoder
from eosin.coordinator.transactions.marker_sender import SETTLED
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.coordinator.transactions.rules import decide as decide_module
from eosin.coordinator.transactions.rules import state
from eosin.coordinator.transactions.rules.state import NO_PRODUCER_ID, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from simulation.planted.places import plant

_FINAL = SETTLED | {ErrorCode.TRANSACTION_COORDINATOR_FENCED}
"""Answers to a marker after which nobody asks again."""


@contextmanager
def markers_refused_are_forgotten() -> Iterator[None]:
    """A coordinator takes for done what another broker refuses for now."""
    answers_of = remote_markers._results

    def careless(response: Any) -> dict[MarkerKey, ErrorCode]:
        answers = answers_of(response)
        return {key: error if error in _FINAL else ErrorCode.NONE for key, error in answers.items()}

    with plant(remote_markers, "_results", careless):
        yield


@contextmanager
def markers_for_brokers_out_of_reach_are_forgotten() -> Iterator[None]:
    """A coordinator drops the markers for a broker that it does not reach."""
    write_markers = RemoteMarkers.write_markers

    async def careless(self: RemoteMarkers, markers: Sequence[MarkersForPartitions]) -> Mapping[MarkerKey, ErrorCode]:
        try:
            return await write_markers(self, markers)
        except OSError:
            keys = [(each.marker.producer_id, partition) for each in markers for partition in each.partitions]
            return dict.fromkeys(keys, ErrorCode.NONE)

    with plant(RemoteMarkers, "write_markers", careless):
        yield


@contextmanager
def next_producer_id_forgotten_over_a_failover() -> Iterator[None]:
    """The next coordinator does not know with which producer id a client goes on, whose epochs are used up."""
    encode_txn = encoder.encode_txn

    def careless(txn: Txn, version: int) -> bytes:
        return encode_txn(msgspec.structs.replace(txn, next_producer_id=NO_PRODUCER_ID), version)

    with plant(encoder, "encode_txn", careless):
        yield


@contextmanager
def offsets_not_added_at_other_brokers() -> Iterator[None]:
    """A group coordinator takes a transaction's offsets without having a coordinator elsewhere add them (KIP-890)."""
    verify = OffsetRequests._verify

    async def careless(
        self: Any, transactional_id: str, producer: ProducerIdAndEpoch, partition: TopicPartition, api_version: int
    ) -> ErrorCode:
        routes: CoordinatorRoutes = self._verifier
        if api_version >= 5 and isinstance(routes._remote.coordinator(transactional_id), RemoteVerifier):
            return ErrorCode.NONE
        return await verify(self, transactional_id, producer, partition, api_version)

    with plant(OffsetRequests, "_verify", careless):
        yield


@contextmanager
def used_up_producer_id_begins_anew() -> Iterator[None]:
    """A producer id whose epochs are used up begins again with epoch 0, in place of a new one."""
    decide, check_transition = decide_module.decide, state.check_transition

    @wraps(decide)
    def careless(txn: Txn, request: Any, now_ms: int) -> Any:
        if getattr(request, "fresh_producer_id", NO_PRODUCER_ID) != NO_PRODUCER_ID and not txn.is_fresh:
            request = msgspec.structs.replace(request, fresh_producer_id=txn.client_pair.producer_id)
        return decide(txn, request, now_ms)

    def lenient(before: Txn, after: Txn) -> None:
        if after.producer_epoch or after.producer_id != before.producer_id:
            check_transition(before, after)

    with (
        plant(effect_runner, "decide", careless),
        plant(state, "check_transition", lenient),
    ):
        yield


@contextmanager
def given_up_requests_arrive() -> Iterator[None]:
    """A broker closes a link as any client closes a connection: what it has given up goes on (cluster.md 6.11.2)."""

    close = _SocketStream.close

    def careless(self: Any, failure: ClientError) -> None:
        self._link_timeout_ms = None
        close(self, failure)

    with plant(_SocketStream, "close", careless):
        yield


@contextmanager
def late_deletion_carried_out() -> Iterator[None]:
    """The deletion of a topic that a broker has passed on and given up arrives when it was done, and the topic made
    anew: no reset keeps it out, as in Apache Kafka."""
    with given_up_requests_arrive():
        yield


@contextmanager
def older_connections_taken() -> Iterator[None]:
    """A leader takes markers from connections that their coordinator has replaced (cluster.md 6.11.3)."""
    with plant(CoordinatorConnections, "accepts", lambda *_: True):
        yield


@contextmanager
def late_markers_taken() -> Iterator[None]:
    """Markers that a coordinator has given up arrive, and are taken from a connection that it has replaced: neither end
    keeps them out, as in Apache Kafka."""
    with given_up_requests_arrive(), older_connections_taken():
        yield
