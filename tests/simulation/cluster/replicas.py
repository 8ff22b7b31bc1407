"""The judge of replicas: what lies below a high watermark anywhere is the same everywhere, and stays.

It looks into every broker's logs again and again while a run goes on. What was below a high watermark of any broker
once, is remembered by topic id, partition and offset: whoever has that offset below its own high watermark has the same
batch there, byte by byte. In compacted topics it has the same record at that offset, or none. And whoever the
controllers count as in sync, or may elect though it is not (KIP-966), has everything that is committed, as durable as
configured.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from eosin.cluster.quorum.rules.image import ClusterImage
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.batch import iter_records
from eosin.protocol.records.header import batches
from eosin.storage.log.partition_log import PartitionLog
from simulation.cluster.machines import ClusterMachine

KNOWN_AFTER_S = 0.3
"""So long after the controllers have made an ISR smaller its leader knows it, and what it committed before is seen."""
Replica = tuple[bytes, int]
"""A topic's id and a partition."""


class Replicas:
    """What was committed, as seen from outside."""

    def __init__(self, machines: Sequence[ClusterMachine], image: Callable[[], ClusterImage]) -> None:
        """`image` tells what the controllers have decided by now."""
        self._machines = machines
        self._image = image
        self._committed: dict[Replica, int] = {}
        """The highest high watermark of each partition that was ever seen."""
        self._batches: dict[Replica, dict[int, bytes]] = {}
        """Every batch that was below a high watermark, by its base offset."""
        self._records: dict[Replica, dict[int, tuple[bytes | None, bytes | None]]] = {}
        """The same for the records of compacted topics, by their offsets."""
        self._seen: dict[tuple[int, int, Replica], tuple[PartitionLog, int]] = {}
        """How far each process's replica was looked at: node id, start, replica. One that goes and comes has another
        log."""
        self._names: dict[Replica, TopicPartition] = {}
        self._gone: set[str] = set()
        """Topics of which that was told."""
        self._too_few: dict[Replica, tuple[float, int]] = {}
        """Partitions whose ISR is too small: since when, and what was committed when their leaders knew that."""

    def look(self) -> Iterator[str]:
        """Look at everything that is new. Violations as sentences."""
        for machine in self._machines:
            logs = machine.logs
            if logs is None or machine.process is None:
                continue
            for partition, log in list(logs.logs.items()):
                if log.failure is None:
                    yield from self._look(machine, partition, log)
        yield from self._lacking()

    def gone(self, names: set[str]) -> Iterator[str]:
        """Which of these topics, which somebody has, are gone."""
        for name in names - self._gone - self._image().topics.keys():
            self._gone.add(name)
            yield f"the topic {name} is gone, and nobody has deleted it since it was created"

    def shrunk(self) -> Iterator[str]:
        """Every ISR that lacks a replica, where there is no reason for that."""
        for topic in self._image().topics.values():
            for index, partition in topic.partitions.items():
                if len(partition.isr) < len(partition.replicas):
                    yield f"the ISR of {topic.name}-{index} is {partition.isr}, and nobody is ill"

    def are_in_sync(self) -> bool:
        """Whether every replica is in its ISR."""
        return all(
            partition.leader >= 0 and len(partition.isr) == len(partition.replicas)
            for topic in self._image().topics.values()
            for partition in topic.partitions.values()
        )

    def led_by(self, node_id: int) -> Iterator[str]:
        """Every partition that a broker leads though its disk is full, and others could."""
        for topic in self._image().topics.values():
            for index, partition in topic.partitions.items():
                if partition.leader == node_id and len(partition.isr) > 1:
                    yield f"broker {node_id} leads {topic.name}-{index}, and its disk has been full for long"

    def committed_by_too_few(self, now: float) -> Iterator[str]:
        """Every partition of which something is committed though fewer replicas are in sync than it asks for, when its
        leader has known that for some time: no ISR may be so small that what it commits is on one disk only."""
        image = self._image()
        defaults = image.configs.get((ConfigResourceType.BROKER, ""), {})
        for topic in image.topics.values():
            configs = {**defaults, **image.configs.get((ConfigResourceType.TOPIC, topic.name), {})}
            for index, partition in topic.partitions.items():
                replica = topic.topic_id, index
                if len(partition.isr) >= int(configs.get("min.insync.replicas", "1")):
                    self._too_few.pop(replica, None)
                    continue
                committed = self._committed.get(replica, 0)
                since, known = self._too_few.setdefault(replica, (now, committed))
                if now - since < KNOWN_AFTER_S or committed <= known:
                    known = max(known, committed)
                else:
                    yield f"{topic.name}-{index} is committed up to {committed}, with an ISR of {partition.isr}"
                    known = committed
                self._too_few[replica] = since, known

    def _lacking(self) -> Iterator[str]:
        """Who may be elected, and lacks what is committed."""
        held = {machine.node_id: machine.logs.logs for machine in self._machines if machine.logs and machine.process}
        serving = {machine.node_id for machine in self._machines if machine.is_unfenced}
        for topic in self._image().topics.values():
            for index, partition in topic.partitions.items():
                committed = self._committed.get((topic.topic_id, index), 0)
                for node_id in {*partition.isr, *partition.elr}:
                    log = held.get(node_id, {}).get(TopicPartition(topic.name, index))
                    if log is None and node_id in held and node_id in serving and committed:
                        yield f"broker {node_id} may be elected for {topic.name}-{index}, and has no log of it"
                    if log is None or log.topic_id != topic.topic_id or log.failure or log.durable_end >= committed:
                        continue
                    yield (
                        f"broker {node_id} may be elected for {topic.name}-{index}, of which {committed} offsets are"
                        f" committed, and has {log.durable_end}"
                    )

    def _look(self, machine: ClusterMachine, partition: TopicPartition, log: PartitionLog) -> Iterator[str]:
        topic_id = log.topic_id
        if topic_id is None:
            return
        replica = topic_id, partition.partition
        self._names[replica] = partition
        self._committed[replica] = max(self._committed.get(replica, 0), log.high_watermark)
        process = machine.node_id, machine.starts, replica
        known_log, first = self._seen.get(process, (log, 0))
        first, end = first if known_log is log else 0, log.high_watermark
        if end < first:
            yield f"the high watermark of {partition} on broker {machine.node_id} fell from {first} to {end}"
        if end <= first:
            return
        self._seen[process] = log, end
        is_compacted = "compact" in log.config.cleanup_policy
        for base, batch in batches_of(log, first, end):
            if is_compacted:
                yield from self._compare_records(machine, replica, batch, end)
                continue
            known = self._batches.setdefault(replica, {}).setdefault(base, batch)
            if known != batch:
                yield f"broker {machine.node_id} has another batch at offset {base} of {partition}, which was committed"

    def _compare_records(self, machine: ClusterMachine, replica: Replica, batch: bytes, end: int) -> Iterator[str]:
        known = self._records.setdefault(replica, {})
        for record in iter_records(batch):
            content = _bytes(record.key), _bytes(record.value)
            if known.setdefault(record.offset, content) != content:
                yield (
                    f"broker {machine.node_id} has another record at offset {record.offset} of {self._names[replica]},"
                    " which was committed"
                )

    def committed(self, topic: str) -> Iterator[Iterable[tuple[int, bytes]]]:
        """All batches of a topic that were ever committed, with their base offsets, partition by partition; those of
        one that is compacted are not known."""
        for replica, known in self._batches.items():
            if self._names[replica].topic == topic:
                yield sorted(known.items())

    def equal(self) -> Iterator[str]:
        """When all is quiet: every replica of a partition has all that was committed, unless its log begins behind
        it."""
        for machine in self._machines:
            logs = machine.logs
            if logs is None:
                yield f"broker {machine.node_id} does not serve in the end"
                continue
            for partition, log in logs.logs.items():
                replica = (log.topic_id or b""), partition.partition
                held = dict(batches_of(log, 0, log.log_end_offset))
                for base, batch in self._batches.get(replica, {}).items():
                    if base >= log.log_start_offset and held.get(base) != batch:
                        yield f"broker {machine.node_id} has lost the committed batch at offset {base} of {partition}"
                if partition.topic == TRANSACTION_STATE_TOPIC:
                    yield from self._compacted_away(machine, replica, held.values())

    def _compacted_away(self, machine: ClusterMachine, replica: Replica, held: Iterable[bytes]) -> Iterator[str]:
        """Every id whose last committed record a replica has no more, whoever compacted it, and when."""
        there = {record.offset for batch in held for record in iter_records(batch)}
        last: dict[bytes | None, tuple[int, bytes | None]] = {}
        for offset, (key, value) in sorted(self._records.get(replica, {}).items()):
            last[key] = offset, value
        for key, (offset, value) in last.items():
            if value is not None and offset not in there:
                yield f"broker {machine.node_id} has compacted {key!r} away at {offset} of {self._names[replica]}"


def batches_of(log: PartitionLog, first: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The batches of a log from one offset to another: base offsets, bytes."""
    for run in log.runs(first):
        view = bytes(run)
        for position, header in batches(view):
            if header.base_offset >= end:
                return
            if header.base_offset >= first:
                yield header.base_offset, view[position : position + header.size]


def _bytes(data: object) -> bytes | None:
    return None if data is None else bytes(data)  # type: ignore[call-overload, no-any-return]
