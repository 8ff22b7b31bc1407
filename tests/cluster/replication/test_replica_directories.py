"""What a broker tells of its replicas' directories, at a start and while it runs (cluster.md 4.18, 4.19)."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_images import ORDERS_ID, broker, delta, image, partition, topic

from eosin.cluster.quorum.rules.image import (
    LOST_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    ClusterImage,
    PartitionRegistration,
    RegisteredBroker,
)
from eosin.cluster.replication.replica_directories import ReplicaDirectories
from eosin.protocol.names import TopicPartition, Uuid

US, OTHER = 1, 2
OURS, REPLACED = b"d" * 16, b"r" * 16
ORDERS = TopicPartition("orders", 0)


class Fakes:
    """The controller, the replicas and the operator of broker 1."""

    def __init__(self, *, failed: bool = False, end: int = 10) -> None:
        self.told: list[tuple[Uuid, asyncio.Future[None]]] = []
        self.anew: list[TopicPartition] = []
        self.opens = 0
        self.elected: list[TopicPartition] = []
        self.waiting: set[TopicPartition] = set()
        self.elsewhere: tuple[int, ...] = ()
        """The brokers that the marker names."""
        self.brokers = (broker(1), broker(2), broker(3))
        self.accepted: set[TopicPartition] = set()
        self.the_log: Any = SimpleNamespace(
            failure=OSError("damaged") if failed else None,
            log_end_offset=end,
            durable_end=end,
            topic_partition=ORDERS,
        )
        self.the_replica: Any = SimpleNamespace(leader_high_watermark=None, log=self.the_log)
        self.directories = ReplicaDirectories(
            US, directory_id=OURS, replicas=self, assignments=self, copies=self, elect=self.elect
        )
        self.image = ClusterImage()

    def assign(self, topic_id: Uuid, partition: int, directory_id: Uuid) -> "asyncio.Future[None]":
        assert (topic_id, partition) == (ORDERS_ID, 0)
        known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.told.append((directory_id, known))
        return known

    def log(self, partition: TopicPartition) -> Any:
        return self.the_log

    def replica(self, partition: TopicPartition) -> Any:
        return self.the_replica

    def open_again(self, partition: TopicPartition) -> None:
        self.opens += 1

    def begin_anew(self, partition: TopicPartition) -> None:
        self.anew.append(partition)
        self.the_log.failure, self.the_log.log_end_offset, self.the_log.durable_end = None, 0, 0

    async def elect(self, partition: TopicPartition) -> None:
        self.elected.append(partition)

    def wait(self, partition: TopicPartition, elsewhere: Collection[int]) -> None:
        self.waiting.add(partition)
        self.elsewhere = tuple(elsewhere)

    def is_accepted(self, partition: TopicPartition) -> bool:
        return partition in self.accepted

    def withdraw(self, partition: TopicPartition) -> None:
        self.waiting.discard(partition)
        self.accepted.discard(partition)

    def keep_only(self, partitions: Collection[TopicPartition]) -> None:
        self.waiting &= set(partitions)
        self.accepted &= set(partitions)

    def begin(self, registration: PartitionRegistration) -> "list[asyncio.Future[None]]":
        self.image = image(topic(registration), brokers=self.brokers)
        return self.directories.begin(self.image)

    def apply(self, registration: PartitionRegistration) -> None:
        after = image(topic(registration), brokers=self.brokers)
        self.directories.apply(delta(self.image, after, ORDERS))
        self.image = after

    @property
    def directories_told(self) -> list[Uuid]:
        return [each for each, _ in self.told]


def placed(own: Uuid, *, leader: int = OTHER, isr: tuple[int, ...] = (US, OTHER)) -> PartitionRegistration:
    return replace(partition(leader, isr=isr), directories=(own, b"o" * 16))


async def test_a_start_waits_until_the_controller_knows_what_is_lost() -> None:
    us = Fakes(failed=True)
    (known,) = us.begin(placed(OURS))
    assert us.directories_told == [LOST_DIRECTORY]
    assert known is us.told[0][1]
    assert us.anew == []


async def test_a_damaged_copy_is_set_aside_only_when_the_image_says_that_it_is_lost() -> None:
    us = Fakes(failed=True)
    us.begin(placed(OURS))
    us.apply(placed(OURS, leader=OTHER))
    assert us.anew == []
    us.apply(placed(LOST_DIRECTORY))
    assert us.anew == [ORDERS]


async def test_a_log_that_begins_anew_is_vouched_for_when_it_has_what_is_committed() -> None:
    us = Fakes(failed=True)
    us.begin(placed(OURS))
    us.apply(placed(LOST_DIRECTORY))
    us.directories.check()
    us.the_replica.leader_high_watermark = 7
    us.the_log.log_end_offset, us.the_log.durable_end = 7, 6
    us.directories.check()
    assert us.directories_told == [LOST_DIRECTORY]
    us.the_log.durable_end = 7
    us.directories.check()
    us.directories.check()
    assert us.directories_told == [LOST_DIRECTORY, OURS]


@pytest.mark.parametrize("elsewhere", [LOST_DIRECTORY, REPLACED])
async def test_a_replica_on_a_disk_that_was_replaced_is_not_vouched_for_at_the_start(elsewhere: Uuid) -> None:
    us = Fakes()
    assert us.begin(placed(elsewhere)) == []
    assert us.directories_told == []
    us.the_replica.leader_high_watermark = 10
    us.directories.check()
    assert us.directories_told == [OURS]


async def test_a_damaged_log_that_is_known_to_be_lost_begins_anew_at_once() -> None:
    us = Fakes(failed=True)
    us.begin(placed(LOST_DIRECTORY))
    assert us.anew == [ORDERS]
    assert us.directories_told == []


async def test_a_log_that_could_not_be_opened_is_declared_lost_and_left_as_it_is() -> None:
    us = Fakes()
    us.the_log = None
    us.begin(placed(OURS))
    us.apply(placed(LOST_DIRECTORY))
    assert us.directories_told == [LOST_DIRECTORY]
    assert us.anew == []


async def test_a_log_that_could_be_opened_in_the_end_is_vouched_for_when_it_has_what_is_committed() -> None:
    us = Fakes(end=0)
    the_log, us.the_log = us.the_log, None
    us.begin(placed(OURS))
    us.apply(placed(LOST_DIRECTORY))
    us.directories.check()
    assert us.opens == 1
    us.the_log = the_log
    us.the_replica.leader_high_watermark = 7
    us.directories.check()
    assert us.directories_told == [LOST_DIRECTORY]
    us.the_log.log_end_offset = us.the_log.durable_end = 7
    us.directories.check()
    assert us.directories_told == [LOST_DIRECTORY, OURS]
    assert us.opens == 1


async def test_what_a_new_leader_tells_to_be_committed_vouches_for_no_replica_out_of_the_isr() -> None:
    """It may have been told less than was committed; below min ISR its high watermark stands still, and the replica
    may be one that is eligible to lead: it would be elected without the rest."""
    us = Fakes(failed=True)
    us.begin(placed(OURS))
    us.apply(placed(LOST_DIRECTORY, isr=(OTHER,)))
    us.the_replica.leader_high_watermark = 7
    us.the_log.log_end_offset = us.the_log.durable_end = 7
    us.directories.check()
    assert us.directories_told == [LOST_DIRECTORY]
    us.apply(placed(LOST_DIRECTORY))
    assert us.directories_told == [LOST_DIRECTORY, OURS]


async def test_a_replica_that_is_nowhere_is_assigned_to_us() -> None:
    us = Fakes()
    us.begin(placed(UNASSIGNED_DIRECTORY))
    assert us.directories_told == [OURS]


async def test_a_log_that_fails_while_this_broker_runs_is_declared_lost_at_once_and_stays_in_place() -> None:
    us = Fakes()
    us.begin(placed(OURS, leader=US))
    us.the_log.failure = OSError("no sync")
    us.directories.log_failed(us.the_log)
    us.apply(placed(LOST_DIRECTORY))
    us.directories.check()
    us.apply(placed(LOST_DIRECTORY, leader=NO_LEADER))
    us.accepted.add(ORDERS)
    us.directories.check()
    assert us.directories_told == [LOST_DIRECTORY]
    assert us.anew == []
    assert us.waiting == set(), "what is offline cannot count, whoever accepts that"


async def test_an_operator_is_asked_only_while_nobody_leads() -> None:
    us = Fakes()
    us.begin(placed(LOST_DIRECTORY))
    us.directories.check()
    assert us.waiting == set()
    us.apply(placed(LOST_DIRECTORY, leader=NO_LEADER))
    us.directories.check()
    assert us.waiting == {ORDERS}
    us.apply(placed(LOST_DIRECTORY, leader=OTHER))
    us.directories.check()
    assert us.waiting == set()


async def test_an_accepted_loss_is_told_and_then_an_election_asked_for() -> None:
    us = Fakes()
    us.begin(placed(LOST_DIRECTORY, leader=NO_LEADER))
    us.directories.check()
    us.accepted.add(ORDERS)
    us.directories.check()
    us.directories.check()
    assert us.directories_told == [OURS]
    assert us.elected == []
    us.told[0][1].set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert us.elected == [ORDERS]
    assert us.accepted == us.waiting == set()


def runs(node_id: int, *, fenced: bool = False) -> RegisteredBroker:
    return replace(broker(node_id), fenced=fenced, log_dirs=(b"o" * 16,))


async def test_the_line_that_names_a_command_comes_once_the_command_works() -> None:
    """Whoever typed it at once was told that the loss of a copy is accepted, though others had copies."""
    us = Fakes()
    us.brokers = (broker(US), runs(OTHER))
    seen: list[tuple[set[TopicPartition], tuple[int, ...]]] = []

    class Reader(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "has no leader" in record.getMessage():
                seen.append((set(us.waiting), us.elsewhere))

    reader = Reader()
    logging.getLogger("eosin.cluster").addHandler(reader)
    try:
        us.begin(placed(LOST_DIRECTORY, leader=NO_LEADER))
        us.directories.check()
    finally:
        logging.getLogger("eosin.cluster").removeHandler(reader)
    assert seen == [({ORDERS}, (OTHER,))]


async def test_a_loss_is_not_accepted_while_another_copy_could_count(caplog: pytest.LogCaptureFixture) -> None:
    us = Fakes()
    us.brokers = (broker(US), runs(OTHER))
    us.begin(placed(LOST_DIRECTORY, leader=NO_LEADER))
    us.directories.check()
    assert (us.waiting, us.elsewhere) == ({ORDERS}, (OTHER,))
    caplog.clear()
    us.accepted.add(ORDERS)
    us.directories.check()
    assert us.directories_told == []
    assert us.accepted == set()
    assert (us.waiting, us.elsewhere) == ({ORDERS}, (OTHER,))
    (line,) = [each.getMessage() for each in caplog.records if "not accepted" in each.getMessage()]
    assert "broker 2" in line
    assert "--election-type unclean --topic orders --partition 0" in line


async def test_a_loss_may_be_accepted_once_no_other_copy_can_count() -> None:
    us = Fakes()
    us.brokers = (broker(US), runs(OTHER))
    us.begin(placed(LOST_DIRECTORY, leader=NO_LEADER))
    us.directories.check()
    us.brokers = (broker(US), runs(OTHER, fenced=True))
    us.apply(placed(LOST_DIRECTORY, leader=NO_LEADER))
    us.directories.check()
    assert (us.waiting, us.elsewhere) == ({ORDERS}, ())
    us.accepted.add(ORDERS)
    us.directories.check()
    assert us.directories_told == [OURS]


@pytest.mark.parametrize("elsewhere", [LOST_DIRECTORY, REPLACED])
async def test_a_replica_that_its_leader_takes_into_the_isr_is_vouched_for_at_once(elsewhere: Uuid) -> None:
    us = Fakes()
    us.begin(placed(elsewhere, isr=(OTHER,)))
    us.apply(placed(elsewhere))
    assert us.directories_told == [OURS]
    us.apply(placed(elsewhere, leader=NO_LEADER, isr=(US,)))
    us.directories.check()
    assert us.waiting == set(), "its leader has said that nothing is missing"


async def test_a_leader_that_is_gone_when_its_last_replica_in_sync_is_vouched_for_is_succeeded() -> None:
    us = Fakes()
    us.begin(placed(REPLACED, isr=(OTHER,)))
    us.apply(placed(REPLACED, leader=NO_LEADER, isr=(US,)))
    assert us.directories_told == [OURS]
    us.apply(placed(OURS, leader=NO_LEADER, isr=(US,)))
    await asyncio.sleep(0)
    assert us.elected == [ORDERS], "to assign a directory starts no election"


async def test_no_election_is_asked_for_where_somebody_leads_or_this_broker_is_not_in_sync() -> None:
    for after in (placed(OURS), placed(OURS, leader=NO_LEADER, isr=(OTHER,))):
        us = Fakes()
        us.begin(placed(REPLACED, isr=(OTHER,)))
        us.apply(after)
        await asyncio.sleep(0)
        assert us.elected == []


async def test_an_isr_from_before_the_start_vouches_for_nothing() -> None:
    us = Fakes()
    us.begin(placed(REPLACED))
    us.apply(placed(REPLACED, leader=NO_LEADER, isr=(US,)))
    us.directories.check()
    assert us.directories_told == []
    assert us.waiting == {ORDERS}


async def test_a_log_that_has_failed_is_not_vouched_for_by_any_isr() -> None:
    us = Fakes()
    us.begin(placed(LOST_DIRECTORY, isr=(OTHER,)))
    us.the_log.failure = OSError("no sync")
    us.apply(placed(LOST_DIRECTORY))
    assert us.directories_told == []


async def test_a_loss_that_was_accepted_for_an_older_trouble_is_forgotten_at_a_start() -> None:
    us = Fakes()
    us.accepted.add(ORDERS)
    us.begin(placed(OURS))
    assert us.accepted == set()


async def test_a_partition_that_leaves_this_broker_is_forgotten() -> None:
    us = Fakes()
    us.begin(placed(LOST_DIRECTORY, leader=NO_LEADER))
    us.directories.check()
    us.apply(partition(OTHER, replicas=(OTHER,)))
    us.the_replica.leader_high_watermark = 0
    us.directories.check()
    assert us.waiting == set()
    assert us.directories_told == []
