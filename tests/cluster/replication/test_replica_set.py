"""Which partitions a broker leads and follows, as the metadata log says (cluster.md 4.3, 4.4, 4.5)."""

import asyncio
import errno
from collections.abc import AsyncIterator

import pytest
from batches import data
from cluster_images import ORDERS_ID, broker, delta, image, partition, topic
from logs import Logs
from waiting import HANG_S, until

from eosin.client.addresses import Address
from eosin.client.errors import ConnectionFailed
from eosin.client.peer import Peer
from eosin.cluster.quorum.rules.image import ClusterImage, PartitionRegistration
from eosin.cluster.replication.fetcher_pool import FetcherPool, FollowerConfig
from eosin.cluster.replication.replica_set import ReplicaSet
from eosin.lab.disk.lying_disk import Fault
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.records.batch import stamp
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, Refused

pytestmark = pytest.mark.virtual

US = 1
OTHER, THIRD = 2, 3
NEW_ID = b"n" * 16
ORDERS = TopicPartition("orders", 0)
STOCK = TopicPartition("stock", 0)


class FakeLeaderships:
    def __init__(self) -> None:
        self.led: dict[TopicPartition, int] = {}
        self.heard: list[str] = []

    def lead(self, log: PartitionLog, topic_id: Uuid, registration: PartitionRegistration) -> None:
        self.led[log.topic_partition] = registration.leader_epoch
        self.heard.append(f"lead {log.topic} {registration.leader_epoch}")

    def resign(self, log: PartitionLog) -> None:
        self.led.pop(log.topic_partition, None)
        self.heard.append(f"resign {log.topic}")


class FakeHandlers:
    def __init__(self) -> None:
        self.served: dict[TopicPartition, PartitionLog] = {}

    def serve(self, partition: TopicPartition, log: PartitionLog) -> None:
        self.served[partition] = log

    def let_go(self, partition: TopicPartition) -> None:
        self.served.pop(partition, None)

    def follow(self, log: PartitionLog) -> None:
        pass


class Us:
    """Broker 1, whose leaders cannot be reached."""

    broker_epoch = 101
    metadata_version = 30

    def __init__(self) -> None:
        self.logs = Logs(replicated=True)
        self.dialled: list[Address] = []
        self.leaderships = FakeLeaderships()
        self.handlers = FakeHandlers()
        self.pool = FetcherPool(US, FollowerConfig(), broker=self, dial=self.dial, clock=self.logs.clock)
        self.replicas = ReplicaSet(
            US,
            inter_broker_listener="PLAINTEXT",
            log_manager=self.logs.manager,
            log_config=lambda _: self.logs.config,
            pool=self.pool,
            leaderships=self.leaderships,
            handlers=self.handlers,
            clock=self.logs.clock,
            backoff_ms=1000,
        )
        self.image = ClusterImage()

    async def dial(self, address: Address, *, client_id: str) -> Peer:
        self.dialled.append(address)
        raise ConnectionFailed("nobody is there")

    def begin(self, first: ClusterImage) -> None:
        self.image = first
        self.replicas.begin(first)

    def apply(self, after: ClusterImage, *changed: TopicPartition, brokers_changed: bool = False) -> None:
        """Publish `after`, in which these partitions have changed: a topic of another id first goes."""
        self.replicas.apply(delta(self.image, after, *changed, brokers_changed=brokers_changed))
        self.image = after

    def log(self, which: TopicPartition = ORDERS) -> PartitionLog:
        return self.logs.manager.logs[which]

    def followed(self) -> set[TopicPartition]:
        return {each for each, _ in self.replicas.followed()}

    def leaders(self) -> set[tuple[int, str]]:
        """Whom we fetch from, and where."""
        return {(key.leader_id, key.address.host) for key, each in self.pool.fetchers.items() if not each.is_idle}

    def append(self, which: TopicPartition = ORDERS) -> Appended | Refused:
        return self.logs.append(self.log(which), data())


@pytest.fixture
async def us() -> AsyncIterator[Us]:
    us = Us()
    await us.logs.manager.open()
    yield us
    await us.pool.close()
    await us.logs.manager.close()


async def test_a_partition_that_names_us_is_led_in_its_epoch(us: Us) -> None:
    us.begin(image(topic(partition(US, epoch=7))))
    assert us.leaderships.led == {ORDERS: 7}
    assert us.handlers.served == {ORDERS: us.log()}
    assert isinstance(us.append(), Appended)
    assert us.log().epochs.entries == ((7, 0),)


async def test_a_partition_of_another_leader_is_followed_and_handed_to_nobody(us: Us) -> None:
    us.begin(image(topic(partition(OTHER, epoch=7))))
    assert us.followed() == {ORDERS}
    assert us.handlers.served == {}
    assert us.leaders() == {(OTHER, "host-2")}
    assert isinstance(us.append(), Refused)


async def test_consumers_read_from_a_follower_in_sync_alone(us: Us) -> None:
    us.begin(image(topic(partition(OTHER, epoch=7))))
    assert us.replicas.readable(ORDERS) is us.log()
    us.apply(image(topic(partition(OTHER, epoch=7, partition_epoch=2, isr=(OTHER,)))), ORDERS)
    assert us.replicas.readable(ORDERS) is None, "it may lack what its leader has committed"
    us.apply(image(topic(partition(US, epoch=8, partition_epoch=3))), ORDERS)
    assert us.replicas.readable(ORDERS) is None, "it is led"
    assert us.handlers.served == {ORDERS: us.log()}


async def test_a_partition_without_a_replica_here_is_none_of_our_business(us: Us) -> None:
    us.begin(image(topic(partition(OTHER, replicas=(OTHER, THIRD)))))
    assert us.followed() == set()
    assert us.logs.manager.logs == {}


async def test_a_partition_is_settling_until_the_replicas_have_followed_the_image(us: Us) -> None:
    assert us.replicas.is_settling(ORDERS), "its turn in a large publication has not come"
    us.begin(image(topic(partition(OTHER))))
    assert us.replicas.is_settling(ORDERS), "its log is a follower's"


async def test_a_partition_whose_log_could_not_be_opened_is_not_settling(
    us: Us, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object) -> PartitionLog:
        raise OSError("no such device")

    monkeypatch.setattr(us.logs.manager, "create_log", cannot)
    us.begin(image(topic(partition(US))))
    assert us.handlers.served == {}
    assert not us.replicas.is_settling(ORDERS)


async def test_a_log_that_could_not_be_opened_is_opened_once_there_is_room(
    us: Us, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object) -> PartitionLog:
        raise OSError("no space left")

    with monkeypatch.context() as full:
        full.setattr(us.logs.manager, "create_log", cannot)
        us.begin(image(topic(partition(US))))
    us.logs.manager.space.is_full = True
    us.replicas.open_again(ORDERS)
    assert us.handlers.served == {}
    us.logs.manager.space.is_full = False
    us.replicas.open_again(ORDERS)
    assert list(us.handlers.served) == [ORDERS]


async def test_an_election_elsewhere_ends_our_leadership(us: Us) -> None:
    us.begin(image(topic(partition(US))))
    us.append()
    waiter = us.log().durable(99)
    us.apply(image(topic(partition(OTHER, epoch=1, partition_epoch=1))), ORDERS)
    assert us.leaderships.led == {}
    assert us.handlers.served == {}
    assert us.followed() == {ORDERS}
    assert await waiter is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert us.log().log_end_offset == 1


async def test_an_election_of_us_ends_our_following(us: Us) -> None:
    us.begin(image(topic(partition(OTHER))))
    us.apply(image(topic(partition(US, epoch=1, partition_epoch=1))), ORDERS)
    assert us.leaderships.led == {ORDERS: 1}
    assert us.followed() == set()
    assert us.leaders() == set()
    assert us.replicas.replica(ORDERS) is None


async def test_an_election_while_the_log_is_cut_is_told_once_the_log_is_there(us: Us) -> None:
    """The coordinator of such a partition was never loaded (simulation, seed 268)."""
    late: list[TopicPartition] = []
    told = asyncio.Event()
    us.replicas.on_led_late += [late.append, lambda _: told.set()]
    us.begin(image(topic(partition(OTHER, epoch=7))))
    log = us.log()
    for offset in range(2):
        batch = data()
        sent = stamp(base_offset=offset, size=len(batch), partition_leader_epoch=7) + batch[16:]
        log.append_as_follower(sent, max_epoch=7, now_ms=us.logs.clock.now_ms())
    replica = us.replicas.replica(ORDERS)
    assert replica is not None
    replica._cut(lambda: log.truncate_to(1))
    us.apply(image(topic(partition(US, epoch=8))), ORDERS)
    assert us.replicas.is_settling(ORDERS)
    assert (us.leaderships.led, late) == ({}, [])
    await log.settled()
    async with asyncio.timeout(HANG_S):
        await told.wait()
    assert us.leaderships.led == {ORDERS: 8}
    assert late == [ORDERS]
    us.apply(image(topic(partition(US, epoch=9))), ORDERS)
    assert late == [ORDERS], "who hears of the image hears of that"


def cut_without_room(us: Us) -> PartitionLog:
    """Follow ORDERS, and begin a cut of its log that finds no room for a checkpoint."""
    us.begin(image(topic(partition(OTHER, epoch=7))))
    log = us.log()
    for offset in range(2):
        batch = data()
        sent = stamp(base_offset=offset, size=len(batch), partition_leader_epoch=7) + batch[16:]
        log.append_as_follower(sent, max_epoch=7, now_ms=us.logs.clock.now_ms())
    replica = us.replicas.replica(ORDERS)
    assert replica is not None
    us.logs.fake.faults.append(Fault("append", errno.ENOSPC, "recovery-point-offset-checkpoint", times=1000))
    replica._cut(lambda: log.truncate_to(1))
    return log


@pytest.mark.parametrize("is_elected_first", [False, True])
async def test_a_topic_is_deleted_though_a_cut_of_its_log_waits_for_room(us: Us, is_elected_first: bool) -> None:
    """Its files may be what takes the room."""
    log = cut_without_room(us)
    await asyncio.sleep(0.01)
    assert log.is_truncating
    if is_elected_first:
        us.apply(image(topic(partition(US, epoch=8))), ORDERS)
        assert us.replicas.is_settling(ORDERS)
    us.apply(image(), ORDERS)
    assert ORDERS not in us.logs.manager.logs
    us.logs.fake.faults.clear()
    us.apply(image(topic(partition(OTHER, epoch=0), topic_id=NEW_ID)), ORDERS)
    await log.settled()
    await until(lambda: not log.is_truncating)
    assert log.failure is None
    assert us.followed() == {ORDERS}
    assert (us.log().log_end_offset, us.log().failure) == (0, None)


async def test_an_older_state_of_a_partition_changes_nothing(us: Us) -> None:
    us.begin(image(topic(partition(US, epoch=3, partition_epoch=5))))
    us.apply(image(topic(partition(OTHER, epoch=2, partition_epoch=4))), ORDERS)
    assert us.leaderships.led == {ORDERS: 3}


async def test_another_isr_in_the_same_epoch_is_told_to_the_leader_and_elects_nobody(us: Us) -> None:
    us.begin(image(topic(partition(US, epoch=3))))
    us.append()
    us.apply(image(topic(partition(US, epoch=3, partition_epoch=1, isr=(US,)))), ORDERS)
    assert us.leaderships.heard == ["lead orders 3", "lead orders 3"]
    assert us.log().epochs.entries == ((3, 0),)


async def test_another_isr_in_the_same_epoch_changes_nothing_for_a_follower(us: Us) -> None:
    us.begin(image(topic(partition(OTHER, epoch=3))))
    replica = us.replicas.replica(ORDERS)
    us.apply(image(topic(partition(OTHER, epoch=3, partition_epoch=1, isr=(OTHER,)))), ORDERS)
    assert us.replicas.replica(ORDERS) is replica
    assert us.leaders() == {(OTHER, "host-2")}


async def test_a_new_leader_is_fetched_from_in_its_epoch(us: Us) -> None:
    us.begin(image(topic(partition(OTHER, epoch=3, replicas=(US, OTHER, THIRD)))))
    us.apply(image(topic(partition(THIRD, epoch=4, partition_epoch=1, replicas=(US, OTHER, THIRD)))), ORDERS)
    assert us.leaders() == {(THIRD, "host-3")}
    replica = us.replicas.replica(ORDERS)
    assert replica is not None
    assert replica.followed.leader_epoch == 4


async def test_a_partition_without_a_leader_waits_for_one(us: Us) -> None:
    us.begin(image(topic(partition(OTHER, epoch=3))))
    us.apply(image(topic(partition(-1, epoch=4, partition_epoch=1))), ORDERS)
    assert us.leaders() == set()
    us.apply(image(topic(partition(OTHER, epoch=5, partition_epoch=2))), ORDERS)
    assert us.leaders() == {(OTHER, "host-2")}


async def test_a_leader_that_is_not_registered_is_waited_for(us: Us) -> None:
    orders = topic(partition(OTHER))
    us.begin(image(orders, brokers=(broker(US),)))
    assert us.leaders() == set()
    us.apply(image(orders), brokers_changed=True)
    assert us.leaders() == {(OTHER, "host-2")}


async def test_a_leader_that_registers_with_another_address_is_dialled_there(us: Us) -> None:
    orders, stock = topic(partition(OTHER)), topic(partition(OTHER), name="stock", topic_id=NEW_ID)
    us.begin(image(orders, stock))
    await asyncio.sleep(0)
    assert us.dialled == [Address("host-2", 9092)]
    us.apply(image(orders, stock, brokers=(broker(US), broker(OTHER, host="elsewhere"))), brokers_changed=True)
    assert us.leaders() == {(OTHER, "elsewhere")}
    await asyncio.sleep(0)
    assert us.dialled[-1] == Address("elsewhere", 9092)


async def test_a_replica_that_moves_away_is_deleted(us: Us) -> None:
    us.begin(image(topic(partition(US))))
    us.append()
    waiter = us.log().durable(99)
    away = partition(OTHER, epoch=1, partition_epoch=1, replicas=(OTHER, THIRD))
    us.apply(image(topic(away)), ORDERS)
    assert us.logs.manager.logs == {}
    assert us.handlers.served == {}
    assert await waiter is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_replica_that_moves_here_is_followed_from_its_start(us: Us) -> None:
    us.begin(image(topic(partition(OTHER, replicas=(OTHER, THIRD)))))
    us.apply(image(topic(partition(OTHER, partition_epoch=1, replicas=(OTHER, THIRD, US)))), ORDERS)
    assert us.followed() == {ORDERS}
    assert us.leaders() == {(OTHER, "host-2")}


async def test_a_deleted_topic_ends_what_waits_for_it(us: Us) -> None:
    us.begin(image(topic(partition(US))))
    us.append()
    waiter = us.log().durable(99)
    us.apply(image(), ORDERS)
    assert us.logs.manager.logs == {}
    assert await waiter is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("leader", [US, OTHER])
async def test_a_topic_that_is_deleted_and_created_again_in_one_delta_begins_empty(us: Us, leader: int) -> None:
    us.begin(image(topic(partition(US, epoch=5, partition_epoch=9))))
    us.append()
    old = us.log()
    us.apply(image(topic(partition(leader), topic_id=NEW_ID)), ORDERS)
    assert us.log() is not old
    assert us.log().topic_id == NEW_ID
    assert us.log().log_end_offset == 0
    assert us.followed() == (set() if leader == US else {ORDERS})


async def test_deletions_come_first_then_leaders_then_followers(us: Us) -> None:
    gone = topic(partition(US), name="gone", topic_id=b"g" * 16)
    stock = topic(partition(US), name="stock", topic_id=b"s" * 16)
    us.begin(image(gone, stock))
    us.leaderships.heard.clear()
    stock = topic(partition(OTHER, epoch=1, partition_epoch=1), name="stock", topic_id=b"s" * 16)
    us.apply(image(topic(partition(US)), stock), STOCK, ORDERS, TopicPartition("gone", 0))
    assert us.leaderships.heard == ["resign gone", "lead orders 0", "resign stock"]


async def test_logs_of_other_topics_and_of_other_brokers_are_set_aside_at_the_first_image(us: Us) -> None:
    for name, topic_id in (("orders", ORDERS_ID), ("stock", b"s" * 16), ("away", b"a" * 16)):
        log = us.logs.manager.create_log(TopicPartition(name, 0), topic_id, us.logs.config, 0)
        log.become_leader(0)
        us.logs.append(log, data())
        log.become_follower()
    away = topic(partition(OTHER, replicas=(OTHER, THIRD)), name="away", topic_id=b"a" * 16)
    stock = topic(partition(US, epoch=1), name="stock", topic_id=NEW_ID)
    us.begin(image(topic(partition(US, epoch=1)), stock, away))
    assert {each: log.log_end_offset for each, log in us.logs.manager.logs.items()} == {ORDERS: 1, STOCK: 0}


async def test_a_replica_out_of_the_isr_stops_fetching_in_a_controlled_shutdown(us: Us) -> None:
    us.begin(image(topic(partition(OTHER))))
    us.replicas.leave()
    assert us.leaders() == {(OTHER, "host-2")}
    us.apply(image(topic(partition(OTHER, partition_epoch=1, isr=(OTHER,)))), ORDERS)
    assert us.leaders() == set()


async def test_an_idle_fetcher_is_stopped(us: Us) -> None:
    us.begin(image(topic(partition(OTHER))))
    us.apply(image(topic(partition(US, epoch=1, partition_epoch=1))), ORDERS)
    assert us.pool.fetchers == {}
