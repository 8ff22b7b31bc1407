"""Facts from a running cluster, asked over Kafka's APIs, and over HTTP from a broker that has a flight recorder
(console.md 3).

Always true: what any broker of Kafka's protocol answers is enough for a sentence; HTTP only adds to it, and a listener
that does not answer costs what it knows, never the sentence.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError
from eosin.client.groups import SHARE, STREAMS, GroupAdmin, GroupDescription, GroupMember
from eosin.client.http import HttpError, get, part
from eosin.client.metadata import PartitionInfo
from eosin.client.partition_offsets import OffsetAdmin
from eosin.client.pending_offsets import pending_offsets
from eosin.client.share_groups import share_positions
from eosin.client.transactions import TransactionAdmin
from eosin.coordinator.hashing import partition_for
from eosin.observe.explain.facts import (
    AwaitedPartition,
    BrokerFacts,
    GroupFacts,
    GroupPartition,
    OpenProducer,
    PartitionFacts,
    ProducerFacts,
    ProducerPlace,
    Replicas,
    SharedPartition,
    ShareWindows,
    StreamsFacts,
    TransactionFacts,
)
from eosin.observe.explain.streams_group_facts import TaskHolder, awaited_tasks, idle_members, streams_facts
from eosin.observe.explain.troubles import BrokerTroubles
from eosin.observe.recorder.events import ClientIdentity
from eosin.observe.recorder.group_events import GroupHistory
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.schemas.describe_producers import ProducerState
from eosin.runtime.clock import SystemClock

if TYPE_CHECKING:
    import ssl

HTTP_LISTENER: Final = "eosin.http.listener"
MIN_IN_SYNC: Final = "min.insync.replicas"
HTTP_TLS: Final = "eosin.http.ssl.enable"
OVER_KAFKA: Final = "Kafka's APIs"
RECORDER: Final = "the broker's flight recorder"
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "[::]", "::"})
_REST: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})

_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MOST_BROKERS: Final = 20
"""The most brokers that are asked about a producer id."""
MOST_OPEN: Final = 20
"""Open transactions of a partition whose coordinators are asked."""
NOTHING_COMMITTED: Final = -1
MOST_PARTITIONS: Final = 200
"""Of a group."""
MOST_AWAITED: Final = 10
"""Partitions of a consumer group that are told to change hands."""
NOT_READY: Final = "NotReady"
"""The state of a streams group whose topology lacks topics."""
MOST_ABSENT: Final = 5
"""Topics that are missing, and named."""
MOST_SEARCHED: Final = 20
"""Partitions of a group in which records are searched by time."""

T = TypeVar("T")


class ClusterFacts:
    """Asks one cluster."""

    def __init__(
        self,
        client: Client,
        *,
        http: str | None,
        token: str | None,
        timeout_ms: int,
        principal: str = "User:ANONYMOUS",
        tls: "ssl.SSLContext | None" = None,
    ) -> None:
        """`http` is [https://]HOST:PORT of one broker's HTTP listener; None finds each broker's own by its settings.
        `principal` is who asks, in words; `tls` decides whom to trust over HTTPS."""
        self._client = client
        self._http = http
        self._token = token
        self._tls = tls
        self.principal = principal
        self._timeout_ms = timeout_ms
        self._clock = SystemClock()
        self.complaints: list[str] = []
        """The questions that failed, each as a sentence."""
        self._unrecorded: set[int] = set()
        """Brokers that could record what happens to transactional ids, and do not."""
        self._denied: set[int | None] = set()
        """Brokers that do not tell their settings."""

    def now_ms(self) -> int:
        """The time here."""
        return self._clock.now_ms()

    async def transaction(self, transactional_id: str) -> TransactionFacts | None:
        """One transactional id; None when nobody knows it."""
        try:
            found = await TransactionAdmin(self._client).describe(transactional_id)
        except BrokerError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return await self._over_http(f"transactions/{part(transactional_id)}", TransactionFacts, None)
        told = await self._over_http(f"transactions/{part(transactional_id)}", TransactionFacts, found.coordinator)
        if told is not None and told.coordinator == found.coordinator:
            return told
        return TransactionFacts(
            transactional_id,
            self._clock.now_ms(),
            found.state,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            timeout_ms=found.timeout_ms,
            start_ms=-1 if found.state in _REST else found.start_ms,
            never_times_out=found.is_two_phase,
            partitions=tuple(str(each) for each in found.partitions),
            coordinator=found.coordinator,
            history=None if told is None else told.history,  # of a broker that was its coordinator before
            sources=(OVER_KAFKA,) if told is None else (OVER_KAFKA, *told.sources),
            lacks_recorder=told is None and found.coordinator in self._unrecorded,
        )

    # Partitions -----------------------------------------------------------------------------------------------------

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic; none when there is no such topic. Raises BrokerError where it must not be
        seen."""
        found = (await self._client.fetch_metadata([topic])).topics.get(topic)
        if found is not None and found.error == _TOPIC_DENIED:
            raise BrokerError(_TOPIC_DENIED, f"looking for topic {topic}")
        return [] if found is None else [TopicPartition(topic, index) for index in sorted(found.partitions)]

    async def partition(self, partition: TopicPartition) -> PartitionFacts:
        """One partition, and the transactions that it holds open. Raises BrokerError where its topic must not be
        seen."""
        subject, now_ms = str(partition), self.now_ms()
        if partition not in await self.partitions_of(partition.topic):
            return PartitionFacts(subject, now_ms, is_known=False)
        leader = (await self._client.fetch_metadata([partition.topic])).topics[partition.topic].partitions
        node_id = leader[partition.partition].leader
        if node_id < 0:  # a log that has failed has no leader either, and its broker knows why
            told = await self._over_http(f"partitions/{part(subject)}", PartitionFacts, None)
            if told is not None and told.error:
                return told
            return PartitionFacts(subject, now_ms, error="LEADER_NOT_AVAILABLE", sources=(OVER_KAFKA,))
        told = await self._over_http(f"partitions/{part(subject)}", PartitionFacts, node_id)
        if told is not None and told.error:
            return told
        lacks_right = ""
        producers: tuple[ProducerState, ...] = ()
        try:
            offsets = await OffsetAdmin(self._client).of(partition)
        except BrokerError as error:
            if error.code is _TOPIC_DENIED:
                raise
            return PartitionFacts(subject, now_ms, leader=node_id, error=str(error), sources=(OVER_KAFKA,))
        try:
            producers = await TransactionAdmin(self._client).producers(partition)
        except BrokerError as error:
            if error.code is not _TOPIC_DENIED:
                return PartitionFacts(subject, now_ms, leader=node_id, error=str(error), sources=(OVER_KAFKA,))
            lacks_right = f"READ on Topic {partition.topic}"
        held = sorted(
            (each for each in producers if each.current_txn_start_offset >= 0),
            key=lambda each: each.current_txn_start_offset,
        )
        return PartitionFacts(
            subject,
            now_ms,
            leader=node_id,
            log_start=offsets.log_start,
            last_stable=offsets.last_stable,
            high_watermark=offsets.high_watermark,
            open=tuple([await self._open(each, partition) for each in held[:MOST_OPEN]]),
            heals_after_ms=-1 if told is None else told.heals_after_ms,
            is_disk_full=told is not None and told.is_disk_full,
            sources=(OVER_KAFKA,) if told is None else (OVER_KAFKA, *told.sources),
            oldest=None if told is None else told.oldest,
            lacks_right=lacks_right,
            replicas=await self._replicas(partition, leader[partition.partition]),
        )

    async def _replicas(self, partition: TopicPartition, known: PartitionInfo) -> Replicas | None:
        """The number of replicas that are in sync, and the number that must be; None if the topic's settings are
        hidden."""
        count = len(known.replicas)
        if count < 2:
            return None
        try:
            settings = await Admin(self._client).describe_configs(partition.topic, keys=[MIN_IN_SYNC])
            needed = min(count, int(settings[MIN_IN_SYNC].value or 1))
        except (ClientError, KeyError, ValueError):
            return None
        return Replicas(count, len(known.in_sync), needed)

    async def _open(self, producer: ProducerState, partition: TopicPartition) -> OpenProducer:
        """A transaction as its partition and its coordinator know it. One that its coordinator will not end is none of
        its."""
        is_asked, is_hidden, transaction = True, False, None
        try:
            transactional_id = await self.owner_of(producer.producer_id)
            if transactional_id is not None:
                transaction = await self.transaction(transactional_id)
            else:
                is_hidden = not await TransactionAdmin(self._client).sees_all_ids()
        except ClientError:
            is_asked = False
        if transaction is not None and not transaction.ends(
            producer.producer_id, producer.producer_epoch, str(partition)
        ):
            transaction = None
        return OpenProducer(
            producer.producer_id,
            producer.producer_epoch,
            producer.current_txn_start_offset,
            producer.last_timestamp,
            transaction,
            is_asked,
            is_hidden,
        )

    async def owner_of(self, producer_id: int) -> str | None:
        """The transactional id that has a producer id; None when no coordinator knows one. Raises ClientError."""
        found = await TransactionAdmin(self._client).list_transactions(producer_ids=(producer_id,))
        return found[0].transactional_id if found else None

    async def producer(self, producer_id: int) -> ProducerFacts | None:
        """A producer id as the partitions of brokers with a recorder know it; None when nobody does."""
        nodes: list[int | None] = [None]
        if self._http is None:
            nodes = [*sorted((await self._client.fetch_metadata([])).brokers)[:MOST_BROKERS]]
        found = [await self._over_http(f"producers/{producer_id}", ProducerFacts, each) for each in nodes]
        told = [each for each in found if each is not None]
        if not told:
            return None
        best: dict[str, ProducerPlace] = {}
        for place in sorted((place for each in told for place in each.places), key=lambda place: -place.last_ms):
            best.setdefault(place.partition, place)  # of replicas, the one that wrote last
        left_out = max(each.left_out for each in told)
        return ProducerFacts(producer_id, told[0].now_ms, tuple(best.values()), left_out, told[0].sources)

    async def brokers(self) -> list[BrokerFacts]:
        """The event loops of the brokers that have an HTTP listener, or of the one that was named."""
        nodes: list[int | None] = [None]
        if self._http is None:
            nodes = [*sorted((await self._client.fetch_metadata([])).brokers)[:MOST_BROKERS]]
        found = [await self._over_http("brokers/loop", BrokerFacts, each) for each in nodes]
        return [each for each in found if each is not None]

    async def troubles(self) -> tuple[list[BrokerTroubles], list[int]]:
        """The troubles that brokers with a recorder know, and the ids of those that tell nothing of it."""
        brokers = sorted((await self._client.fetch_metadata([])).brokers)[:MOST_BROKERS]
        if self._http is not None:
            named = await self._over_http("brokers/troubles", BrokerTroubles, None)
            told = {} if named is None else {named.node_id: named}
        else:
            asked = {each: await self._over_http("brokers/troubles", BrokerTroubles, each) for each in brokers}
            told = {node_id: each for node_id, each in asked.items() if each is not None}
        return list(told.values()), [each for each in brokers if each not in told]

    # Groups ---------------------------------------------------------------------------------------------------------

    async def group(self, group_id: str) -> GroupFacts:
        """One group, what it has committed, and what lies before it."""
        now_ms, admin = self.now_ms(), GroupAdmin(self._client)
        group = await admin.describe(group_id)
        if not group.is_there:
            return GroupFacts(group_id, now_ms, "", unserved=await admin.unserved(group.coordinator))
        history = await self._over_http(f"groups/{part(group_id)}", GroupHistory, group.coordinator)
        if group.type == SHARE:
            return await self._share_group(group, history, now_ms)
        holders_of_tasks = [_task_holder(each) for each in group.members if each.streams is not None]
        committed = await admin.offsets(group_id)
        pending = await pending_offsets(self._client, group_id)
        partitions = []
        holders: dict[str, None] = {}
        assigned = {each for member in group.members for each in member.partitions}
        for each in sorted({*committed, *pending, *assigned})[:MOST_PARTITIONS]:
            try:
                position = committed.get(each, NOTHING_COMMITTED)
                partitions.append(await self._group_partition(each, position, each in pending, holders))
            except BrokerError as error:
                self.complaints.append(str(error))
        last_commit_ms = -1 if history is None else history.last_commit_ms
        return GroupFacts(
            group_id,
            now_ms,
            group.state,
            members=tuple(map(_identity, group.members)),
            partitions=tuple(partitions),
            held_by=tuple(holders),
            history=history,
            pending_in=await self._pending_in(group_id) if pending else None,
            sources=(OVER_KAFKA,) if history is None else (OVER_KAFKA, RECORDER),
            last_commit_ms=last_commit_ms,
            arrived=await self._arrived(partitions, last_commit_ms),
            epoch=-1 if group.epoch is None else group.epoch,
            assignment_epoch=-1 if group.assignment_epoch is None else group.assignment_epoch,
            awaited=tuple(
                islice(awaited_tasks(holders_of_tasks) if holders_of_tasks else _awaited(group), MOST_AWAITED)
            ),
            idle=idle_members(holders_of_tasks),
            streams=await self._streams(group, holders_of_tasks) if group.type == STREAMS else None,
        )

    async def _streams(self, group: GroupDescription, holders: Sequence[TaskHolder]) -> StreamsFacts:
        """The topology of a streams group, with the topics that it lacks, and the tasks of its members."""
        topology = group.topology
        if topology is None:
            return streams_facts(holders, topology_epoch=-1)
        obstacle = ""
        if group.state == NOT_READY:
            found = (await self._client.fetch_metadata([*topology.sources, *topology.internal])).topics
            there = {name for name, topic in found.items() if not topic.error}
            obstacle = "its topology and its topics do not fit"
            for kind, names in (("internal", topology.internal), ("source", topology.sources)):
                if absent := [each for each in names if each not in there]:
                    more = f" and {len(absent) - MOST_ABSENT} more" if len(absent) > MOST_ABSENT else ""
                    obstacle = f"{kind} topics {', '.join(absent[:MOST_ABSENT])}{more} are missing"
        return streams_facts(holders, topology_epoch=topology.epoch, obstacle=obstacle)

    async def _share_group(self, group: GroupDescription, history: GroupHistory | None, now_ms: int) -> GroupFacts:
        positions = await share_positions(self._client, group.group_id)
        readers = Counter(each for member in group.members for each in member.partitions)
        shared = [SharedPartition(str(at), each.start_offset, each.lag, readers[at]) for at, each in positions.items()]
        path = f"share-groups/{part(group.group_id)}"
        windows = await self._over_http(path, ShareWindows, group.coordinator)
        known = {} if windows is None else {each.partition: each for each in windows.partitions}
        return GroupFacts(
            group.group_id,
            now_ms,
            group.state,
            members=tuple(map(_identity, group.members)),
            history=history,
            sources=(OVER_KAFKA,) if history is None else (OVER_KAFKA, RECORDER),
            epoch=-1 if group.epoch is None else group.epoch,
            assignment_epoch=-1 if group.assignment_epoch is None else group.assignment_epoch,
            idle=tuple(_identity(each) for each in group.members if not each.partitions),
            shared=tuple(known.get(each.partition, each) for each in shared[:MOST_PARTITIONS]),
        )

    async def _arrived(self, partitions: Sequence[GroupPartition], since_ms: int) -> int:
        """The number of offsets that have come since a time to partitions that have any left; -1 if there are too many
        of them."""
        left = [each.partition for each in partitions if each.offsets_behind or each.undecided]
        if since_ms < 0 or len(left) > MOST_SEARCHED:
            return -1
        arrived = 0
        for each in left:
            topic, _, index = each.rpartition("-")
            try:
                arrived += await OffsetAdmin(self._client).since(TopicPartition(topic, int(index)), since_ms + 1)
            except BrokerError as error:
                self.complaints.append(str(error))
                return -1
        return arrived

    async def _group_partition(
        self, partition: TopicPartition, committed: int, is_pending: bool, holders: dict[str, None]
    ) -> GroupPartition:
        admin = OffsetAdmin(self._client)
        offsets = await admin.of(partition)
        between, first = None, max(committed, offsets.log_start)
        if committed >= 0 and first < offsets.last_stable:
            try:
                between = await admin.between(partition, first, offsets.last_stable)
            except BrokerError as error:
                if error.code is not _TOPIC_DENIED:
                    raise
                self.complaints.append(f"what lies before the group is not counted without READ on {partition.topic}")
        if offsets.high_watermark > offsets.last_stable:
            for each in (await self.partition(partition)).open[:1]:
                if each.transaction is not None:
                    holders[each.transaction.transactional_id] = None
        is_counted = between is not None or 0 <= offsets.last_stable <= first
        return GroupPartition(
            str(partition),
            committed,
            offsets.last_stable,
            offsets.high_watermark,
            pending=is_pending,
            records=-1 if not is_counted else 0 if between is None else between.records,
            control_records=0 if between is None else between.control_records,
            log_start=offsets.log_start,
        )

    async def _pending_in(self, group_id: str) -> TransactionFacts | None:
        """The oldest transaction that is open in the group's partition of `__consumer_offsets`: offsets of this group
        may be another's of that partition."""
        try:
            partitions = await self.partitions_of(CONSUMER_OFFSETS_TOPIC)
            if not partitions:
                return None
            index = partition_for(group_id, len(partitions))
            held = (await self.partition(TopicPartition(CONSUMER_OFFSETS_TOPIC, index))).open
        except BrokerError as error:
            if error.code is not _TOPIC_DENIED:
                raise
            return None
        known = [each.transaction for each in held if each.transaction is not None]
        return known[0] if len(known) == 1 else None

    # Over HTTP ------------------------------------------------------------------------------------------------------

    async def _over_http(self, path: str, kind: type[T], node_id: int | None) -> T | None:
        """Get the answer of the broker `node_id`, or of the one that was named; None if it has no HTTP listener."""
        address = self._http or await self._address(node_id)
        if address is None:
            return None
        url = address if "://" in address else f"http://{address}"
        try:
            answer = await get(f"{url}/api/v1/{path}", timeout_ms=self._timeout_ms, token=self._token, tls=self._tls)
        except HttpError as error:
            elsewhere = "" if self._http else ": if it has another address from here, --http HOST:PORT names it"
            self.complaints.append(f"{error}{elsewhere}")
            return None
        if answer.status != 200:
            if answer.status != 404:
                self.complaints.append(f"{address} answered HTTP {answer.status}: {_why(answer.body)}")
            return None
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except msgspec.DecodeError as error:
            self.complaints.append(f"{address} answers what this eosin does not understand: {error}")
            return None

    async def _address(self, node_id: int | None) -> str | None:
        """The address at which a broker listens for HTTP, by its settings."""
        try:
            if node_id is None:
                node_id = min((await self._client.fetch_metadata([])).brokers, default=None)
            if node_id is None:
                return None
            settings = await Admin(self._client).describe_configs(
                str(node_id), kind=ConfigResourceType.BROKER, keys=[HTTP_LISTENER, HTTP_TLS]
            )
            told = settings[HTTP_LISTENER].value if HTTP_LISTENER in settings else None
            if not told:
                if HTTP_LISTENER in settings:
                    self._unrecorded.add(node_id)
                return None
            host, _, port = told.rpartition(":")
            if host in _WILDCARDS and ":" in told:
                host = (await self._client.fetch_metadata([])).brokers[node_id].host
            is_tls = HTTP_TLS in settings and settings[HTTP_TLS].value == "true"
            return f"{'https' if is_tls else 'http'}://{host or '127.0.0.1'}:{port}"
        except BrokerError as error:
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED and node_id not in self._denied:
                self._denied.add(node_id)
                self.complaints.append(
                    "where a broker's recorder listens is not told without DESCRIBE_CONFIGS on Cluster kafka-cluster:"
                    " --http HOST:PORT names it"
                )
            return None
        except ClientError:
            return None  # Apache Kafka, or an older broker: it tells nothing more


def _why(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")


def _identity(member: GroupMember) -> ClientIdentity:
    return ClientIdentity(client_id=member.client_id, peer=member.host.lstrip("/"))


def _task_holder(member: GroupMember) -> TaskHolder:
    told = member.streams
    assert told is not None
    return TaskHolder(member.member_id, _identity(member), told.topology_epoch, told.tasks, told.target)


def _awaited(group: GroupDescription) -> Iterator[AwaitedPartition]:
    """The partitions of a consumer group that members are to have and have not got; those that another one holds
    first."""
    holders = {partition: member for member in group.members for partition in member.partitions}
    found = [
        (member, partition, holders.get(partition))
        for member in group.members
        for partition in sorted({*(member.target or ())} - {*member.partitions})
    ]
    for member, partition, holder in sorted(found, key=lambda each: (each[2] is None, each[1])):
        if holder is None:
            yield AwaitedPartition(str(partition), _identity(member))
        else:
            yield AwaitedPartition(str(partition), _identity(member), _identity(holder), holder.member_id)
