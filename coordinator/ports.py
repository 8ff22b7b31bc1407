"""The needs of both coordinators, declared by them and implemented by `eosin.broker.partitions`. Those of one alone
are in `transactions/ports.py` and `groups/ports.py`.

Nothing here assumes that a log, a partition or a coordinator is on this machine: whoever implements it answers
NOT_LEADER_OR_FOLLOWER when it is not.
"""

from asyncio import Future
from collections.abc import Iterator
from typing import Protocol

from eosin.protocol.errors import ErrorCode
from eosin.storage.results.log_results import AppendOrigin, AppendResult, Marker


class CoordinatorLog(Protocol):
    """One partition of an internal topic, as its coordinator uses it."""

    @property
    def leader_epoch(self) -> int:
        """The partition's leader epoch, which is the coordinator's epoch. Strictly higher after every start."""

    @property
    def log_end_offset(self) -> int:
        """The next offset to be written."""

    @property
    def high_watermark(self) -> int:
        """Everything below is as durable as configured."""

    def append(self, batch: bytes, *, now_ms: int, origin: AppendOrigin) -> AppendResult:
        """Check and write one batch, now, without waiting. Its base offset is assigned by the log."""

    def append_records(
        self, records: bytes, *, count: int, now_ms: int, awaited: bool = True, bounded: bool = True
    ) -> AppendResult:
        """The same for `count` encoded records of no producer's, of which the log makes a batch. `awaited` is False
        when nobody waits for it to be durable: the log may then take its time. Unless it is `bounded` no setting is
        too small for the batch."""

    def append_marker(self, marker: Marker, *, now_ms: int) -> AppendResult:
        """Write a transaction marker, now, without waiting."""

    def durable(self, end_offset: int) -> "Future[ErrorCode]":
        """Done with NONE once the high watermark is at or beyond `end_offset`; with KAFKA_STORAGE_ERROR when the log
        has failed. Already done when there is nothing to wait for. Cancelling it undoes nothing."""

    def runs(self, from_offset: int = 0) -> "Iterator[memoryview]":
        """Every batch from `from_offset`, where one begins, or the log start to the log end, in order, in pieces of one
        or more whole batches. What is appended meanwhile comes too."""


class CoordinatorLogs(Protocol):
    """The partitions of one internal topic."""

    @property
    def partition_count(self) -> int:
        """Number of the topic's partitions; fixed for its life."""

    def log(self, partition: int) -> CoordinatorLog | ErrorCode:
        """The log when this broker leads the partition, else NOT_COORDINATOR."""


class Requester(Protocol):
    """The client that sent a request, as far as its connection tells."""

    @property
    def client_id(self) -> str | None:
        """The client's own name for itself."""

    @property
    def client_software_name(self) -> str:
        """The client library; empty where it does not say (KIP-511)."""

    @property
    def client_software_version(self) -> str:
        """The library's version."""

    @property
    def peer(self) -> str:
        """HOST:PORT of the client."""

    @property
    def listener(self) -> str:
        """The listener that its connection came in on."""

    @property
    def closed_ms(self) -> int:
        """The time at which its connection closed; -1 while it is open, and where there is none."""
