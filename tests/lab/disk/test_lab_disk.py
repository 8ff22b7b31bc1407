"""The disk of the lab, without a broker: patterns of paths, counts, luck."""

import errno
import random

import pytest

from eosin.lab.disk.faults import Fault
from eosin.lab.disk.lab_disk import LabDisk
from eosin.lab.disk.lying_files import Stopped

DATA = "/lab"


def disk(seed: int = 1) -> LabDisk:
    luck = random.Random(seed)
    made = LabDisk(luck=lambda: luck)
    made.make_directory(f"{DATA}/orders-0")
    return made


def test_a_pattern_names_the_end_of_a_path_and_other_texts_a_part_of_it() -> None:
    log, index = f"{DATA}/orders-0/0.log", f"{DATA}/orders-0/0.index"
    assert Fault("sync", errno.EIO, "orders-0/*.log").is_on(log)
    assert not Fault("sync", errno.EIO, "orders-0/*.log").is_on(index)
    assert Fault("sync", errno.EIO, "orders-0").is_on(index)
    assert not Fault("sync", errno.EIO, "orders-1").is_on(index)


def test_a_read_fails_as_often_as_it_is_to() -> None:
    made = disk()
    made.put(f"{DATA}/orders-0/0.log", b"bytes")
    made.faults.append(Fault("read", errno.EIO, "0.log"))
    with pytest.raises(OSError, match="injected"):
        made.read_whole(f"{DATA}/orders-0/0.log")
    assert made.read_whole(f"{DATA}/orders-0/0.log") == b"bytes"


def test_calls_are_counted_over_lives_and_a_stop_is_so_many_calls_away() -> None:
    made = disk()
    file = made.open(f"{DATA}/orders-0/0.log", create=True)
    made.stop_after(1)
    file.append([b"whole"])
    with pytest.raises(Stopped):
        file.append([b"half"])
    after = made.killed()
    assert after.content(f"{DATA}/orders-0/0.log") == b"wholeha"
    assert (after.count("append"), after.stop_at) == (2, None)


def test_luck_is_that_of_the_seed_unless_all_is_to_be_lost() -> None:
    def lost(seed: int, *, all_of_it: bool) -> bytes | None:
        made = disk(seed)
        made.sync_everything()
        file = made.open(f"{DATA}/orders-0/0.log", create=True)
        file.append([b"synced"])
        file.sync()
        made.sync_directory(f"{DATA}/orders-0")
        file.append([b"and not"])
        made.loses_unsynced = all_of_it
        return made.power_loss().content(f"{DATA}/orders-0/0.log")

    assert {lost(seed, all_of_it=True) for seed in range(9)} == {b"synced"}
    found = [lost(seed, all_of_it=False) for seed in range(20)]
    assert found == [lost(seed, all_of_it=False) for seed in range(20)]
    assert len(set(found)) > 2


def test_every_kind_of_call_can_be_slow_and_a_sync_of_a_flusher_is_waited_for_elsewhere() -> None:
    made, waited = disk(), list[float]()
    made.wait = waited.append
    made.slowness_ms = {"append": (5, 0), "read": (7, 0), "create": (3, 0), "sync": (9, 0)}
    file = made.open(f"{DATA}/orders-0/0.log", create=True)
    file.append([b"bytes"])
    file.sync()
    made.read_whole(f"{DATA}/orders-0/0.log")
    assert waited == [3, 5, 7]
    assert made.sync_ms() == 9
    assert made.killed().slowness_ms == made.slowness_ms
