"""`BrokerApi`: a broker as a test sees it, whatever thread or process it runs in; each call returns when it has
happened. The same names, to be awaited, are in `async_api`."""

from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from eosin.lab import client_settings
from eosin.lab.common.errors import LabError, noted_on
from eosin.lab.common.limits import WAIT_S, WaitLimit
from eosin.lab.common.values import (
    AbortedRange,
    ConnectionInWork,
    LabMember,
    OpenInPartition,
    PartitionName,
    ReadRecord,
    StoredBatch,
    TransactionSeen,
    TransactionStep,
)
from eosin.lab.crash.instances import LabInstance
from eosin.lab.crash.life import snapshot_of
from eosin.lab.crash.snapshot import Snapshot
from eosin.lab.disk.disk_face import LabDiskFace
from eosin.lab.history.faces import LabHistory
from eosin.lab.network.operations import LabNetworkFace
from eosin.lab.nodes.operations import Nodes
from eosin.lab.operations import Operations, Text
from eosin.lab.options import text_of, texts_of
from eosin.lab.verdict.faces import Verdicts

if TYPE_CHECKING:
    from eosin.lab.faults.faces import Faults

if TYPE_CHECKING:
    from eosin.lab.clock_api import BrokerClock

P = ParamSpec("P")
T = TypeVar("T")

READ_COMMITTED: Final = "read_committed"


class BrokerApi(Verdicts, Nodes):
    """The abilities of all brokers for tests. Used as a context manager, it closes at the end."""

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of each node, for `bootstrap.servers`."""
        raise NotImplementedError

    def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop it. Harmless when that was done already."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with noted_on(error):
            self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.bootstrap}>"

    # Settings for clients

    def conf(self, *, plain: bool = False, **more: Any) -> dict[str, Any]:
        """The settings of a client of librdkafka (confluent-kafka), with backoffs that make tests fast; `plain` leaves
        the client's own. `more` has `_` for the dot: `conf(transactional_id="invoicing-1")`."""
        return client_settings.librdkafka(self.bootstrap, more, plain=plain)

    def kwargs(self, *, plain: bool = False, **more: Any) -> dict[str, Any]:
        """The keywords of a client of kafka-python or aiokafka, likewise."""
        return client_settings.keywords(self.bootstrap, more, plain=plain)

    def properties(self, *, plain: bool = False, **more: Any) -> dict[str, str]:
        """The properties of a Java client, likewise."""
        return client_settings.java(self.bootstrap, more, plain=plain)

    # What is in it

    def topic(self, name: str) -> "LabTopic":
        """The topic of this name, whether or not it exists."""
        return LabTopic(self, name)

    def set_features(self, **levels: int) -> None:
        """Bring features of the cluster to these levels, up or down, with `_` for the dot: `share_version=1` for share
        groups (KIP-932), `streams_version=1` for groups of Kafka Streams (KIP-1071), which are 0 in the beginning.
        Raises LabError."""
        self.call(Operations.set_features, {name.replace("_", "."): level for name, level in levels.items()})

    def topics(self) -> list[str]:
        """The names of the topics that exist, without internal ones."""
        return self.call(Operations.topic_names)

    def transactions(self, transactional_id: str) -> "LabTransactions":
        """The transactions of one id."""
        return LabTransactions(self, transactional_id)

    def open_transactions(self) -> list[TransactionSeen]:
        """All transactions that are open, by id."""
        return self.call(Operations.open_transactions)

    def group(self, group_id: str) -> "LabGroup":
        """The consumer group of this name, whether or not it exists."""
        return LabGroup(self, group_id)

    def connections(self) -> list[ConnectionInWork]:
        """The connections of clients, and the requests that each waits for."""
        return self.call(Operations.connections)

    # Ends and beginnings

    @property
    def disk(self) -> LabDiskFace[None, int]:
        """The disk, and its faults."""
        return LabDiskFace(self.call)

    @property
    def network(self) -> LabNetworkFace[None, int]:
        """The network between it and its clients, and the faults of that."""
        return LabNetworkFace(self.call)

    def crash(self, *, power: bool = False, restart: bool = True) -> None:
        """End as `kill -9` ends a broker; with `power` as a machine that loses its power: what was not synced may be
        lost, or torn. Then start on what is left, at the same address, unless `restart` is False."""
        self.call(Operations.crash, power, restart)

    def restart(self, *, clean: bool = True, settings: Mapping[str, object] | None = None) -> None:
        """Stop in order and start again, with these settings beside those that it had; `clean` False is a crash."""
        self.call(Operations.restart, clean, texts_of(settings))

    def stop(self) -> None:
        """Stop in order. Until `start` nobody listens at its address."""
        self.call(Operations.stop)

    def start(self, *, settings: Mapping[str, object] | None = None) -> Self:
        """Start after a stop, or after a crash without a restart."""
        self.call(Operations.start, texts_of(settings))
        return self

    def snapshot(self) -> Snapshot:
        """All that is on its disk, once markers under way are written: `restore`, `fork` and `snapshot=` go on from
        it."""
        return Snapshot.decode(self.call(Operations.snapshot))

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot. Connections are reset, as by a crash."""
        self.call(Operations.restore, snapshot_of(snapshot).encoded())

    def zombie(self, transactional_id: str) -> LabInstance[str]:
        """One more instance with the identity of the present one, which does as it is told whatever has come since."""
        return LabInstance(self.call, transactional_id, self.call(Operations.open_zombie, transactional_id))

    def successor(self, transactional_id: str) -> LabInstance[str]:
        """A new instance, which fences the present one."""
        return LabInstance(self.call, transactional_id, self.call(Operations.open_successor, transactional_id))

    # Records

    def produce(
        self,
        topic: str,
        *values: Text,
        key: Text = None,
        headers: Mapping[str, Text] | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
        transactional_id: str | None = None,
        commit: bool = True,
    ) -> list[int]:
        """Write records, and return their offsets. Texts are UTF-8, None is a tombstone. A topic that does not exist is
        created. The partition is that of the key, else 0. With `transactional_id` they are one transaction, which
        `commit=False` leaves open."""
        return self.call(
            Operations.produce,
            topic,
            list(values),
            key,
            dict(headers or {}),
            timestamp,
            partition,
            transactional_id,
            commit,
        )

    def consume(
        self,
        topic: str,
        count: int = 1,
        *,
        isolation: str = READ_COMMITTED,
        partition: int | None = None,
        timeout: float = WAIT_S,
    ) -> list[ReadRecord]:
        """The first `count` records of a topic, or more, as soon as they can be read. After `timeout` seconds LabError
        says why they cannot."""
        return self.call(Operations.read_some, topic, count, isolation, partition, WaitLimit(timeout).left_ms())

    # Time

    @cached_property
    def clock(self) -> "BrokerClock":
        """Its clock, which a test moves."""
        from eosin.lab.clock_api import BrokerClock

        return BrokerClock(self)

    def settle(self, *, quiet_ms: float = 0, timeout: float = WAIT_S) -> None:
        """Wait until the broker has nothing to do. It cannot see into clients: with `quiet_ms`, wait until for so long
        none has sent anything but what it sends in the background, so that they have probably finished, too. Raises
        LabError after `timeout` seconds."""
        self.call(Operations.settle, quiet_ms, timeout * 1000)

    @property
    def faults(self) -> "Faults":
        """Its scripted faults: `faults.on("EndTxn").lose("answer")`."""
        from eosin.lab.faults.faces import Faults

        return Faults(self)

    def complaints(self, *, dismiss: bool = False) -> list[str]:
        """The reasons to fail a test that is content: rules that never fired. They are told once with `dismiss`."""
        return self.call(Operations.fault_complaints, dismiss)

    # Reasons and the past; waits and assertions are those of `Verdicts`

    @property
    def history(self) -> LabHistory:
        """All that has happened in it."""
        return LabHistory(self)

    def explain(self, subject: str) -> str:
        """Explain in a sentence or two why a transactional id, a partition, a topic or a group is as it is."""
        return self.call(Operations.explain, subject)


class LabTopic:
    """One topic. What reads it raises LabError where there is none."""

    def __init__(self, broker: BrokerApi, name: str) -> None:
        self.name: Final = name
        self._broker: Final = broker

    def create(self, partitions: int = 1, **configs: object) -> Self:
        """Create it. Configs have `_` for the dot: `cleanup_policy="compact"`."""
        self._broker.call(Operations.create_topic, self.name, partitions, topic_configs(configs))
        return self

    def delete(self) -> None:
        """Delete it."""
        self._broker.call(Operations.delete_topic, self.name)

    @property
    def partitions(self) -> int:
        """The number of its partitions."""
        return self._broker.call(Operations.partition_count, self.name)

    def values(self, *, isolation: str = READ_COMMITTED, partition: int | None = None) -> list[bytes | None]:
        """The values of its records, by partition and offset."""
        return [each.value for each in self.records(isolation=isolation, partition=partition)]

    def records(self, *, isolation: str = READ_COMMITTED, partition: int | None = None) -> list[ReadRecord]:
        """Its records, by partition and offset, as a reader of this isolation gets them now."""
        return self._broker.call(Operations.read, self.name, isolation, partition)

    def batches(self, *, partition: int | None = None) -> list[StoredBatch]:
        """All batches in its logs, of aborted transactions too, and the markers."""
        return self._broker.call(Operations.batches, self.name, partition)

    def high_watermark(self, partition: int = 0) -> int:
        """The offset behind the last record that anybody can read."""
        return self._broker.call(Operations.end_offset, self.name, partition, "read_uncommitted")

    def last_stable_offset(self, partition: int = 0) -> int:
        """The offset behind the last one that readers of committed records get: where the oldest open transaction
        begins, else the high watermark."""
        return self._broker.call(Operations.end_offset, self.name, partition, READ_COMMITTED)

    def aborted(self, partition: int = 0) -> list[AbortedRange]:
        """Its aborted transactions, by offset."""
        return self._broker.call(Operations.aborted, self.name, partition)

    def open(self, partition: int = 0) -> list[OpenInPartition]:
        """The transactions that hold it open, by offset."""
        return self._broker.call(Operations.open_in, self.name, partition)


class LabTransactions:
    """The transactions of one transactional id. Facts of an id that has not been used are None or empty."""

    def __init__(self, broker: BrokerApi, transactional_id: str) -> None:
        self.transactional_id: Final = transactional_id
        self._broker: Final = broker

    @property
    def _described(self) -> TransactionSeen | None:
        return self._broker.call(Operations.transaction, self.transactional_id)

    @property
    def state(self) -> str | None:
        """As Kafka spells it: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort."""
        seen = self._described
        return None if seen is None else seen.state

    @property
    def epoch(self) -> int | None:
        """The producer epoch."""
        seen = self._described
        return None if seen is None else seen.producer_epoch

    @property
    def producer_id(self) -> int | None:
        """The producer id."""
        seen = self._described
        return None if seen is None else seen.producer_id

    @property
    def partitions(self) -> list[PartitionName]:
        """The partitions of the open transaction."""
        seen = self._described
        return [] if seen is None else list(seen.partitions)

    @property
    def deadline(self) -> int | None:
        """The time at which the open transaction is aborted, in ms since the epoch; None if none is open."""
        seen = self._described
        return None if seen is None else seen.deadline

    @property
    def outcomes(self) -> list[str]:
        """`commit`, `abort`, `timeout`, `fenced`, `operator` or `expired` of each transaction, in order, by the
        coordinator's own decisions; `open` for one that is not decided."""
        return self._broker.call(Operations.outcomes, self.transactional_id)

    @property
    def timeline(self) -> list[TransactionStep]:
        """Steps in the recent life of the id, oldest first."""
        return self._broker.call(Operations.timeline, self.transactional_id)

    def abort(self) -> None:
        """Abort what is open and fence the producer, as an operator does."""
        self._broker.call(Operations.abort_transaction, self.transactional_id)

    def expire(self) -> None:
        """Jump to the deadline of the open transaction: it times out, and all else happens that is due until then."""
        self._broker.call(Operations.expire_transaction, self.transactional_id)


class LabGroup:
    """One group: of consumers by either protocol, a share group, or one of Kafka Streams."""

    def __init__(self, broker: BrokerApi, group_id: str) -> None:
        self.group_id: Final = group_id
        self._broker: Final = broker

    @property
    def state(self) -> str:
        """As Kafka spells it: Empty, PreparingRebalance, CompletingRebalance, Stable, Assigning, Reconciling, NotReady;
        Dead if there is none."""
        return self._broker.call(Operations.group_state, self.group_id)

    @property
    def members(self) -> list[LabMember]:
        """Its members, each with what it was assigned."""
        return self._broker.call(Operations.members, self.group_id)

    @property
    def generation(self) -> int | None:
        """Its generation, or the epoch of a group of another kind; None if there is no such group."""
        return self._broker.call(Operations.generation, self.group_id)

    def offset(self, topic: str, partition: int = 0) -> int | None:
        """The offset that it has committed, or before which a share group is done with all; None for nothing."""
        return self._broker.call(Operations.committed_offset, self.group_id, topic, partition)

    def pending(self, topic: str, partition: int = 0) -> int | None:
        """The offset that an open transaction holds for it; None for nothing."""
        return self._broker.call(Operations.pending_offset, self.group_id, topic, partition)

    def lag(self, topic: str | None = None) -> int:
        """The number of committed records that it has not committed as read: of all partitions that it has committed or
        is assigned, and of all of `topic`. Markers and aborted records do not count."""
        return self._broker.call(Operations.lag, self.group_id, topic)

    def kick(self, member_id: str | None = None) -> None:
        """Remove a member, or all of them: they join again, if they are alive."""
        self._broker.call(Operations.kick, self.group_id, member_id)

    def expire(self, member_id: str | None = None) -> None:
        """End the session of a member, or of all of them, as if it had been silent for all of it: a client that is
        alive is told so by its next heartbeat. Raises LabError for one that has none, since it waits for others."""
        self._broker.call(Operations.expire_member, self.group_id, member_id)

    def rebalance(self) -> None:
        """Begin a rebalance of a classic group that no member has caused: all join again, and keep their ids."""
        self._broker.call(Operations.rebalance, self.group_id)


def topic_configs(configs: Mapping[str, object]) -> dict[str, str]:
    """Configs of a topic by Kafka's names."""
    return {name.replace("_", "."): text_of(value) for name, value in configs.items()}


def closed(name: str) -> LabError:
    """The error for a call on a broker that is closed."""
    return LabError(f"this {name} is closed")
