"""Upkeep rests while it has nothing to do, and whatever needs it ends the rest (`Rest`)."""

import errno
from collections.abc import AsyncIterator, Callable

import pytest
from batches import data
from logs import DATA_DIR, Logs, appended

from eosin.protocol.names import TopicPartition
from eosin.runtime.background import LONGEST_REST_MS, Background
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.disk.space import WritePurpose
from eosin.storage.log.config import LogConfig

OFFSETS = TopicPartition("__consumer_offsets", 0)
ORDERS = TopicPartition("orders", 0)
REST_S = LONGEST_REST_MS // 1000


class Upkeep:
    """The periodic work of a data directory, as a broker does it, with the rounds of each kind."""

    def __init__(self) -> None:
        self.logs = Logs(cleaner=CleanerConfig())
        self.background = Background(self.logs.clock)
        self.rounds: dict[str, int] = {}

    async def begin(self) -> None:
        """Open the directory and do what is to be done at a start."""
        await self.logs.open()
        for work in self.logs.manager.periodic_work():
            self.background.every(work.interval_ms, work.name, self._counted(work.name, work.run), rest=work.rest)
        await self.seconds(100)

    def _counted(self, name: str, run: Callable[[], object]) -> Callable[[], object]:
        def counted() -> object:
            self.rounds[name] = self.rounds.get(name, 0) + 1
            return run()

        return counted

    async def seconds(self, count: int) -> dict[str, int]:
        """Let so much time pass; the rounds in it."""
        self.rounds.clear()
        await self.logs.clock.run(count * 1000)
        return dict(self.rounds)


@pytest.fixture
async def upkeep() -> AsyncIterator[Upkeep]:
    made = Upkeep()
    await made.begin()
    yield made
    await made.background.stop()
    await made.logs.manager.close()


async def test_logs_at_rest_have_a_round_in_ten_seconds_or_when_compaction_is_due(upkeep: Upkeep) -> None:
    assert await upkeep.seconds(150) == {
        "checkpoints": 150 // REST_S,
        "compaction": 2 * (150 // 15),  # each 15 s, and at the end of the longest rest
        "idle files": 150 // REST_S,
    }


async def test_an_append_ends_the_rest_until_its_log_is_saved(upkeep: Upkeep) -> None:
    log = upkeep.logs.log(ORDERS)
    appended(upkeep.logs.append(log, data()))
    assert (await upkeep.seconds(50))["checkpoints"] == 50
    await upkeep.seconds(30)
    assert log.checkpoint_state.recovery_point == log.log_end_offset
    assert (await upkeep.seconds(150))["checkpoints"] == 150 // REST_S


async def test_an_append_to_a_log_of_the_brokers_own_has_it_looked_at_each_second(upkeep: Upkeep) -> None:
    logs = upkeep.logs
    appended(logs.append(logs.log(ORDERS), data()))
    assert (await upkeep.seconds(30))["compaction"] <= 2 * 30 // 15 + 1
    own = logs.log(OFFSETS)
    own.update_config(LogConfig(cleanup_policy=frozenset({"compact"})))
    appended(logs.append(own, data()))
    assert (await upkeep.seconds(30))["compaction"] == 30


async def test_a_log_that_must_be_compacted_is_looked_at_within_a_second(upkeep: Upkeep) -> None:
    await upkeep.seconds(100)
    upkeep.logs.manager.cleaner.request(OFFSETS, 7)
    assert (await upkeep.seconds(1))["compaction"] == 1


async def test_the_offsets_of_a_deleted_topic_leave_the_files_within_a_second_and_its_own_files_in_time(
    upkeep: Upkeep,
) -> None:
    logs = upkeep.logs
    appended(logs.append(logs.log(ORDERS), data()))
    await upkeep.seconds(200)
    path = f"{DATA_DIR}/recovery-point-offset-checkpoint"
    assert b"orders" in logs.fake.read_whole(path)
    logs.manager.delete_logs("orders")
    await upkeep.seconds(1)
    assert b"orders" not in logs.fake.read_whole(path)
    assert [each for each in logs.fake.paths() if "orders-0" in each]
    await upkeep.seconds(logs.config.file_delete_delay_ms // 1000)
    assert not [each for each in logs.fake.paths() if "orders-0" in each]


async def test_a_disk_that_becomes_full_is_looked_at_within_a_second(upkeep: Upkeep) -> None:
    space = upkeep.logs.manager.space
    await upkeep.seconds(100)
    space.makes_room(OSError(errno.ENOSPC, "no space"), WritePurpose.RECORDS)
    assert space.is_full
    await upkeep.seconds(1)
    assert not space.is_full, "there is room again"
