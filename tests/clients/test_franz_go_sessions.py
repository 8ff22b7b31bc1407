"""Offsets and output in one transaction, as franz-go does it: one client that reads in a group and writes
(GroupTransactSession), under both transaction protocols.
"""

from collections.abc import Iterator

import pytest
from broker_process import BrokerProcess
from real_clients import franz_go
from real_clients.base import ClientRefused, read_all
from scenario import Scenario
from toolchains import skipped_without
from waiting import HANG_S


@pytest.fixture(scope="module", params=["2", "1"], ids=lambda version: f"version {version}")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One that offers this transaction protocol."""
    settings = {"eosin.transaction.version": request.param}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings=settings) as made:
        yield made


@pytest.fixture(scope="module")
def scenario(broker: BrokerProcess) -> Iterator[Scenario]:
    with skipped_without():
        franz_go.CLIENT.start()
    made = Scenario(franz_go.CLIENT, broker.address)
    yield made
    made.close()


def session(scenario: Scenario, source: str, group: str, transactional_id: str | None = None) -> franz_go.Session:
    made = franz_go.Session(
        scenario.bootstrap, transactional_id=transactional_id or scenario.name("tx"), group=group, topics=[source]
    )
    scenario.closes(made.close)
    return made


def fed(scenario: Scenario, records: int, partitions: int = 1) -> str:
    """A topic with so many records: "0", "1" and so on, in turns over its partitions."""
    topic = scenario.topic(partitions)
    feed = scenario.transactional()
    feed.begin()
    for number in range(records):
        feed.send(topic, b"%d" % number, partition=number % partitions)
    feed.commit()
    return topic


def test_each_input_is_copied_once_although_every_third_transaction_aborts(scenario: Scenario) -> None:
    source, target, group = fed(scenario, 60), scenario.topic(), scenario.name("group")
    copier = session(scenario, source, group)
    attempts = done = 0
    while done < 60:
        copier.begin()
        batch = copier.read(min(5, 60 - done))
        assert batch, f"only {done} of 60 arrived"
        attempts += 1
        assert batch[0].offset == done, "after an abort it reads again from what is committed"
        for record in batch:
            copier.send(target, b"out-" + (record.value or b""))
        if copier.end(commit=attempts % 3 != 0):
            done += len(batch)
    read = read_all(scenario.reader(target), 60)
    assert [each.value for each in read] == [b"out-%d" % number for number in range(60)]
    assert scenario.consumer(group=group).committed(source, 0) == 60


def copy(copier: franz_go.Session, target: str, count: int, timeout_s: float = HANG_S) -> int:
    """Write up to `count` records of those that it reads, flushed but not committed; how many."""
    copier.begin()
    batch = copier.read(count, timeout_s)
    for record in batch:
        copier.send(target, record.value or b"", partition=record.partition)
    copier.flush()
    return len(batch)


def copied_by(copier: franz_go.Session, target: str) -> int:
    """One transaction of up to five records; how many it committed."""
    copied = copy(copier, target, 5, timeout_s=0.3)
    return copied if copier.end(commit=True) else 0


def test_a_joining_member_makes_the_other_abort_and_each_input_is_written_once(scenario: Scenario) -> None:
    source, target, group = fed(scenario, 40, partitions=4), scenario.topic(4), scenario.name("group")
    first = session(scenario, source, group)
    assert copy(first, target, 10) == 10
    second = session(scenario, source, group)
    written = copy(second, target, 1)
    assert written == 1, "it was given partitions of the first one's"
    assert not first.end(commit=True), "they were taken from it in the middle of its transaction"
    written = second.end(commit=True)
    for _ in range(60):
        written += sum(copied_by(copier, target) for copier in (first, second))
        if written == 40:
            break
    read = read_all(scenario.reader(target, 4), 40)
    assert sorted(int(each.value or b"") for each in read) == list(range(40))


def test_two_sessions_write_each_input_once_over_a_restart_of_the_broker(
    scenario: Scenario, broker: BrokerProcess
) -> None:
    source, target, group = fed(scenario, 80, partitions=4), scenario.topic(4), scenario.name("group")
    ids = [scenario.name("tx"), scenario.name("tx")]
    copiers = [session(scenario, source, group, each) for each in ids]
    observer = scenario.consumer(group=group)
    turns = 0

    def finished() -> bool:
        return sum(observer.committed(source, partition) or 0 for partition in range(4)) == 80

    while not finished():
        turns += 1
        assert turns < 100, "they do not get on"
        if turns == 6:
            copy(copiers[0], target, 5, timeout_s=0.3)
            broker.stop()
            broker.start()
            copiers[0].end(commit=True)
        for index, copier in enumerate(copiers):
            try:
                copied_by(copier, target)
            except ClientRefused:  # what its application does: start again, which fences whatever it left
                copier.close()
                copiers[index] = session(scenario, source, group, ids[index])
    read = read_all(scenario.reader(target, 4), 80)
    assert sorted(int(each.value or b"") for each in read) == list(range(80))


def test_a_fenced_franz_go_session_cannot_add_offsets(scenario: Scenario) -> None:
    source, target, group = fed(scenario, 1), scenario.topic(), scenario.name("group")
    transactional_id = scenario.name("tx")
    zombie = session(scenario, source, group, transactional_id)
    zombie.begin()
    assert len(zombie.read(1)) == 1
    zombie.send(target, b"zombie")
    zombie.flush()
    scenario.transactional(transactional_id)
    with pytest.raises(ClientRefused) as refused:
        zombie.end(commit=True)
    assert refused.value.kind == "fenced"
    assert scenario.consumer(group=group).committed(source, 0) is None
    assert scenario.reader(target).read(1, timeout_s=1) == []
