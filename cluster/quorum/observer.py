"""Decides how a broker follows the metadata log: what it asks whom, and what it makes of the answers (cluster.md 3.1 to
3.7).

`Observer` is told what happened and returns what is to be done, in that order; the last effect is always an
`SendRequest` or a
`Pause`, so that exactly one thing is under way. It does no I/O and reads no clock. Always true:

- The raft epoch never goes back, and within one epoch the leader never changes.
- The high watermark never goes back; only batches below it are handed out, each once, in order, without a gap.
- What was handed out is never taken back: a quorum that asks for it has lost committed metadata, and raises QuorumLost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from eosin.client.addresses import Address
from eosin.client.errors import known_code
from eosin.cluster.quorum.leader import ActiveController
from eosin.cluster.quorum.rules.batches import LogBatch, control_records, is_whole_snapshot, whole_batches
from eosin.cluster.quorum.rules.errors import QuorumLost, QuorumUnreadable
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import Uuid
from eosin.protocol.records.batch import CorruptRecords
from eosin.protocol.records.compression import BytesLike
from eosin.protocol.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from eosin.protocol.schemas.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshot,
    PartitionSnapshotData,
    TopicSnapshot,
)
from eosin.protocol.schemas.records.quorum import VotersRecord
from eosin.protocol.types import Message

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final[Uuid] = (1).to_bytes(16, "big")
NO_HIGH_WATERMARK: Final = -1
_PARTITION: Final = 0
_MAX_WAIT_MS: Final = 500
_NO_SESSION: Final = -1
_ABSENT: Final = -1
"""Epoch and offset of a tagged field that is not there."""


@dataclass(frozen=True, slots=True)
class ObserverConfig:
    """This broker's identity, and where the quorum may be found (cluster.md 1.2)."""

    cluster_id: str
    node_id: int
    directory_id: Uuid
    listener: str
    """The first of `controller.listener.names`: by its name, endpoints of voters are told apart."""
    bootstrap: tuple[Address, ...] = ()
    """`controller.quorum.bootstrap.servers`"""
    voters: Mapping[int, Address] = field(default_factory=dict)
    """`controller.quorum.voters`, until a VotersRecord was read."""
    fetch_max_bytes: int = 1048576
    snapshot_max_bytes: int = 1048576
    request_timeout_ms: int = 2000
    fetch_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    reset_timeout_ms: int = 60000
    """After so long without an answer that is as new as what this broker has seen, the quorum counts as reset: it is
    `initial.broker.registration.timeout.ms` (cluster.md 3.6.5)."""
    expected_offset: int = -1
    """The last offset that an earlier run has published: a quorum whose high watermark stays below it for
    `reset_timeout_ms` was reset (cluster.md 3.7)."""


class SendRequest(NamedTuple):
    """Send one request and report what became of it, with `handle_response` or `failed`."""

    address: Address
    key: ApiKey
    message: Message
    timeout_ms: int


class Pause(NamedTuple):
    """Wait, then call `resumed`."""

    delay_ms: int


class Disconnect(NamedTuple):
    """Close the connection: its peer does not keep to the protocol, or another one is asked next."""

    reason: str


class Follow(NamedTuple):
    """The active controller is another one, or unknown."""

    leader: ActiveController | None


class Apply(NamedTuple):
    """These batches are committed."""

    batches: tuple[LogBatch, ...]


class Restore(NamedTuple):
    """This is the whole cluster up to `snapshot_id`; it replaces everything before it."""

    snapshot_id: SnapshotId
    batches: tuple[LogBatch, ...]


Effect = SendRequest | Pause | Disconnect | Follow | Apply | Restore
Effects = tuple[Effect, ...]


class _Voters(NamedTuple):
    """A voter set, and the offset from which on it is in force."""

    offset: int
    addresses: Mapping[int, Address]


class _EpochStart(NamedTuple):
    epoch: int
    offset: int


class _Download:
    """A snapshot on its way."""

    def __init__(self, snapshot_id: SnapshotId) -> None:
        self.snapshot_id = snapshot_id
        self.data = bytearray()


class _Refused(Exception):
    """An answer of no use: another controller is asked, after a pause."""


class Observer:
    """One broker's view of the quorum and of the log's end."""

    def __init__(self, config: ObserverConfig) -> None:
        """Raises QuorumLost when this broker's id is a voter's."""
        self._config = config
        self.epoch = 0
        """The newest raft epoch that was heard of."""
        self._leader_id: int | None = None
        """The leader in `epoch`, if it is known and has answered since."""
        self._leader_address: Address | None = None
        self._followed: ActiveController | None = None
        """The controller that the last `Follow` named."""
        self.high_watermark = NO_HIGH_WATERMARK
        self._knows_high_watermark = False
        self._applied_end = 0
        """Everything below it was handed out."""
        self._pending: list[LogBatch] = []
        """Batches that are read and not handed out yet."""
        self._epoch_starts: list[_EpochStart] = []
        """The start of each epoch of the log, as far as it was read."""
        self._voters: list[_Voters] = []
        self._download: _Download | None = None
        self._next_candidate = 0
        self._asked: Address | None = None
        self._behind_since_ms: int | None = None
        self._behind_until_ms = 0
        self._check_voters(config.voters)

    # What there is to read

    @property
    def end_offset(self) -> int:
        """The next offset to fetch."""
        return self._pending[-1].end_offset if self._pending else self._applied_end

    @property
    def last_fetched_epoch(self) -> int:
        """The epoch of the last batch that was read; 0 when there is none (cluster.md 3.1)."""
        return self._epoch_starts[-1].epoch if self._epoch_starts else 0

    @property
    def is_caught_up(self) -> bool:
        """True if everything that a leader has said to be committed was handed out. The end of a snapshot does not say
        what has been committed since it was made."""
        return self._knows_high_watermark and self._applied_end >= self.high_watermark

    @property
    def voters(self) -> Mapping[int, Address]:
        """The addresses of the voters: of the newest VotersRecord, else as they are configured."""
        return self._voters[-1].addresses if self._voters else self._config.voters

    # What happened

    def start(self) -> Effects:
        """Begin."""
        return (self._next_request(),)

    def resumed(self) -> Effects:
        """A pause is over."""
        return (self._next_request(),)

    def failed(self) -> Effects:
        """No answer came: no connection, a lost one, or silence for too long (cluster.md 3.2)."""
        return self._elsewhere("no answer")

    def handle_response(self, response: FetchResponse | FetchSnapshotResponse, now_ms: int) -> Effects:
        """The answer to the last `SendRequest`; `now_ms` on a clock that is never set. Raises QuorumLost,
        QuorumUnreadable."""
        try:
            if isinstance(response, FetchResponse):
                return self._fetched(response, now_ms)
            return self._fetched_snapshot(response, now_ms)
        except (_Refused, CorruptRecords) as error:
            return self._elsewhere(str(error))

    # Requests

    def _next_request(self) -> SendRequest:
        config = self._config
        if self._leader_id is not None and self._leader_address is not None:
            self._asked = self._leader_address
        else:
            candidates = tuple(dict.fromkeys((*self.voters.values(), *config.bootstrap)))
            assert candidates, "there is a bootstrap server or a voter"
            self._asked = candidates[self._next_candidate % len(candidates)]
            self._next_candidate += 1
        if self._download is not None:
            return SendRequest(self._asked, ApiKey.FETCH_SNAPSHOT, self._snapshot_request(), config.request_timeout_ms)
        return SendRequest(self._asked, ApiKey.FETCH, self._fetch_request(), config.fetch_timeout_ms)

    def _fetch_request(self) -> FetchRequest:
        """cluster.md 3.1"""
        config = self._config
        partition = FetchPartition(
            partition=_PARTITION,
            current_leader_epoch=self.epoch,
            fetch_offset=self.end_offset,
            last_fetched_epoch=self.last_fetched_epoch,
            log_start_offset=-1,
            partition_max_bytes=config.fetch_max_bytes,
            replica_directory_id=config.directory_id,
            high_watermark=self.high_watermark,
        )
        return FetchRequest(
            cluster_id=config.cluster_id,
            replica_state=ReplicaState(config.node_id, -1),
            max_wait_ms=min(_MAX_WAIT_MS, config.fetch_timeout_ms // 2),
            min_bytes=0,
            max_bytes=config.fetch_max_bytes,
            session_id=0,
            session_epoch=_NO_SESSION,
            topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        )

    def _snapshot_request(self) -> FetchSnapshotRequest:
        """cluster.md 3.5"""
        assert self._download is not None
        partition = PartitionSnapshot(
            partition=_PARTITION,
            current_leader_epoch=self.epoch,
            snapshot_id=self._download.snapshot_id,
            position=len(self._download.data),
            replica_directory_id=self._config.directory_id,
        )
        return FetchSnapshotRequest(
            cluster_id=self._config.cluster_id,
            replica_id=self._config.node_id,
            max_bytes=self._config.snapshot_max_bytes,
            topics=(TopicSnapshot(METADATA_TOPIC, (partition,)),),
        )

    # Answers

    def _fetched(self, response: FetchResponse, now_ms: int) -> Effects:
        self._check_top_level(response.error_code)
        partition = _only_partition(response)
        endpoints = {each.node_id: Address(each.host, each.port) for each in response.node_endpoints}
        again = self._judge(partition.current_leader, partition.error_code, endpoints, now_ms)
        if again is not None:
            return again
        if partition.diverging_epoch.epoch != _ABSENT or partition.diverging_epoch.end_offset != _ABSENT:
            return self._diverged(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
        if partition.snapshot_id.end_offset != _ABSENT:
            return self._begin_download(partition.snapshot_id)
        self._append(partition.records)
        self._check_for_a_reset(now_ms, is_behind=partition.high_watermark <= self._config.expected_offset)
        self.high_watermark = max(self.high_watermark, partition.high_watermark)
        self._knows_high_watermark |= partition.high_watermark >= 0
        return (*self._leader_effects(), *self._committed(), self._next_request())

    def _fetched_snapshot(self, response: FetchSnapshotResponse, now_ms: int) -> Effects:
        """cluster.md 3.5"""
        download = self._download
        assert download is not None, "a snapshot is on its way"
        self._check_top_level(response.error_code)
        partition = _only_snapshot(response)
        endpoints = {each.node_id: Address(each.host, each.port) for each in response.node_endpoints}
        if partition.error_code in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE):
            self._download = None
            return (Pause(self._config.retry_backoff_ms),)
        again = self._judge(partition.current_leader, partition.error_code, endpoints, now_ms)
        if again is not None:
            return again
        self._check_for_a_reset(now_ms, is_behind=False)
        piece = partition.unaligned_records
        if partition.snapshot_id != download.snapshot_id or partition.position != len(download.data) or not piece:
            raise _Refused("a piece of another snapshot, or of another position")
        download.data += piece
        if len(download.data) < partition.size:
            return (*self._leader_effects(), self._next_request())
        if len(download.data) > partition.size:
            raise _Refused("a snapshot longer than it should be")
        return (*self._leader_effects(), *self._downloaded(download), self._next_request())

    def _check_top_level(self, error: int) -> None:
        if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise QuorumLost(
                f"the controller at {self._asked} belongs to another cluster than {self._config.cluster_id}, the "
                f"cluster.id of this broker"
            )
        if error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise QuorumLost(
                f"the controller at {self._asked} does not authorize this broker: it needs CLUSTER_ACTION on Cluster"
            )
        if error != ErrorCode.NONE:
            raise _Refused(f"{self._asked} answers {_name(error)}")

    def _judge(
        self, leader: LeaderIdAndEpoch, error: int, endpoints: Mapping[int, Address], now_ms: int
    ) -> Effects | None:
        """Learn from an answer who leads (cluster.md 3.2); None when its content counts."""
        self._check_voters((leader.leader_id,))
        if 0 <= leader.leader_epoch < self.epoch:
            self._check_for_a_reset(now_ms, is_behind=True)
            raise _Refused(f"epoch {leader.leader_epoch} is over, it is {self.epoch}")
        epoch_before = self.epoch
        if error == ErrorCode.NONE and self._asked is not None:  # only a leader answers so
            endpoints = {leader.leader_id: self._asked, **endpoints}
        has_learned = self._learn(leader, endpoints)
        if error == ErrorCode.NONE and self.epoch == epoch_before:
            return None
        self._download = None
        is_hint = error in (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if is_hint and has_learned and self._leader_address is not None:
            return (*self._leader_effects(), self._next_request())
        raise _Refused(f"{self._asked} answers {_name(error)}")

    def _learn(self, leader: LeaderIdAndEpoch, endpoints: Mapping[int, Address]) -> bool:
        """Adopt epoch and leader; whether that was news."""
        leader_id = leader.leader_id if leader.leader_id >= 0 else None
        if leader.leader_epoch < 0 or (leader.leader_epoch == self.epoch and leader_id is None):
            return False
        is_known = leader.leader_epoch == self.epoch and self._leader_id is not None
        if is_known and leader_id != self._leader_id:
            raise _Refused(f"{leader_id} and {self._leader_id} are said to lead in epoch {self.epoch}")
        self.epoch = leader.leader_epoch
        self._leader_id = leader_id
        address = None if leader_id is None else endpoints.get(leader_id) or self.voters.get(leader_id)
        has_moved = address is not None and address != self._leader_address
        self._leader_address = address or (self._leader_address if is_known else None)
        return not is_known or has_moved

    def _leader_effects(self) -> Effects:
        leader = None
        if self._leader_id is not None and self._leader_address is not None:
            leader = ActiveController(self._leader_id, self.epoch, *self._leader_address)
        if leader == self._followed:
            return ()
        self._followed = leader
        return (Follow(leader),)

    def _elsewhere(self, reason: str) -> Effects:
        """Forget who leads, but not in which epoch, and ask the next controller."""
        self._leader_id = self._leader_address = self._download = None
        return (Disconnect(reason), *self._leader_effects(), Pause(self._config.retry_backoff_ms))

    def _check_for_a_reset(self, now_ms: int, *, is_behind: bool) -> None:
        """Raise QuorumLost when only answers that are behind have come for too long (cluster.md 3.6.5 and 3.7)."""
        limit_ms = self._config.reset_timeout_ms
        last_ms, self._behind_until_ms = self._behind_until_ms, now_ms
        if not is_behind:
            self._behind_since_ms = None
        elif self._behind_since_ms is None or now_ms - last_ms > limit_ms // 4:
            # Behind for the first time, or after a silence in which nobody could say otherwise.
            self._behind_since_ms = now_ms
        elif now_ms - self._behind_since_ms >= limit_ms:
            raise QuorumLost(
                f"the quorum has been behind this broker for {(now_ms - self._behind_since_ms) // 1000} s: epoch "
                f"{self.epoch} and metadata up to offset {max(self._config.expected_offset, self.high_watermark - 1)} "
                f"were there before; were the controllers formatted again, or restored from an old backup?"
            )

    # The log's end

    def _append(self, data: BytesLike | None) -> None:
        """Take whole batches as the pending tail. Raises CorruptRecords, QuorumUnreadable."""
        if not data:
            return
        found = whole_batches(data)
        if not found:
            raise _Refused("not one whole batch")
        for batch in found:
            if batch.base_offset != self.end_offset:
                raise QuorumUnreadable(
                    f"the metadata log goes on with offset {batch.base_offset} where {self.end_offset} was next"
                )
            if not self.last_fetched_epoch <= batch.epoch <= self.epoch:
                raise QuorumUnreadable(
                    f"the batch at offset {batch.base_offset} of the metadata log is of epoch {batch.epoch}, between "
                    f"epochs {self.last_fetched_epoch} and {self.epoch}"
                )
            if not self._epoch_starts or batch.epoch > self.last_fetched_epoch:
                self._epoch_starts.append(_EpochStart(batch.epoch, batch.base_offset))
            self._pending.append(batch)
            if batch.is_control:
                self._read_voters(batch)

    def _committed(self) -> Effects:
        """Hand out what is below the high watermark."""
        count = 0
        for batch in self._pending:
            if batch.end_offset > self.high_watermark:
                break
            count += 1
        if not count:
            return ()
        ready, self._pending = tuple(self._pending[:count]), self._pending[count:]
        self._applied_end = ready[-1].end_offset
        return (Apply(ready),)

    def _diverged(self, epoch: int, end_offset: int) -> Effects:
        """Drop what the leader does not have (cluster.md 3.3)."""
        later = [start.offset for start in self._epoch_starts if start.epoch > epoch]
        cut = min(end_offset, later[0] if later else self.end_offset)
        if end_offset < self.high_watermark or cut < self._applied_end:
            raise QuorumLost(
                f"the quorum has lost committed metadata: its log has nothing of epoch {epoch} from offset "
                f"{end_offset} on, and this broker has seen {self.high_watermark} committed"
            )
        before = self.end_offset
        self._pending = [batch for batch in self._pending if batch.end_offset <= cut]
        self._epoch_starts = [start for start in self._epoch_starts if start.offset < self.end_offset]
        self._voters = [each for each in self._voters if each.offset < self.end_offset]
        if self.end_offset == before:
            raise _Refused(f"a divergence at {end_offset} that takes nothing away")
        return (*self._leader_effects(), self._next_request())

    # Snapshots

    def _begin_download(self, snapshot_id: SnapshotId) -> Effects:
        if snapshot_id.end_offset <= self._applied_end or snapshot_id.epoch < self.last_fetched_epoch:
            raise _Refused(f"a snapshot that ends at {snapshot_id.end_offset}, and {self._applied_end} is applied")
        self._download = _Download(snapshot_id)
        return (*self._leader_effects(), self._next_request())

    def _downloaded(self, download: _Download) -> Effects:
        """A snapshot is whole: the log goes on behind it."""
        found = whole_batches(download.data)
        if sum(len(batch.data) for batch in found) != len(download.data) or not is_whole_snapshot(found):
            raise _Refused("a snapshot without its header or its footer")
        snapshot_id = download.snapshot_id
        self._download = None
        self._pending = []
        self._applied_end = snapshot_id.end_offset
        self._epoch_starts = [_EpochStart(snapshot_id.epoch, snapshot_id.end_offset - 1)]
        self.high_watermark = max(self.high_watermark, snapshot_id.end_offset)
        self._voters = []
        for batch in found:
            if batch.is_control:
                self._read_voters(batch._replace(base_offset=snapshot_id.end_offset - 1))
        return (Restore(snapshot_id, tuple(found)),)

    # Voters

    def _read_voters(self, batch: LogBatch) -> None:
        """A voter set is in force as soon as it is read (KIP-853)."""
        for _, record in control_records(batch):
            if isinstance(record, VotersRecord):
                addresses = {
                    voter.voter_id: Address(endpoint.host, endpoint.port)
                    for voter in record.voters
                    for endpoint in voter.endpoints
                    if endpoint.name.upper() == self._config.listener.upper()
                }
                self._check_voters(voter.voter_id for voter in record.voters)
                self._voters.append(_Voters(batch.base_offset, addresses))

    def _check_voters(self, voter_ids: Iterable[int]) -> None:
        if self._config.node_id in voter_ids:
            raise QuorumLost(
                f"node.id {self._config.node_id} is the id of a controller: brokers and controllers share one "
                f"namespace of ids (cluster.md 1.1)"
            )


def _name(error: int) -> str:
    known = known_code(error)
    return f"error {error}" if known is None else known.name


def _only_partition(response: FetchResponse) -> PartitionData:
    topics = response.responses
    if len(topics) == 1 and topics[0].topic_id == METADATA_TOPIC_ID and len(topics[0].partitions) == 1:
        partition = topics[0].partitions[0]
        if partition.partition_index == _PARTITION:
            return partition
    raise _Refused("an answer about something else")


def _only_snapshot(response: FetchSnapshotResponse) -> PartitionSnapshotData:
    topics = response.topics
    if len(topics) == 1 and topics[0].name == METADATA_TOPIC and len(topics[0].partitions) == 1:
        partition = topics[0].partitions[0]
        if partition.index == _PARTITION:
            return partition
    raise _Refused("an answer about something else")
