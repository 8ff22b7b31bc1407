"""Where random ids come from."""

import random
from pathlib import Path

import eosin.broker
from eosin.runtime.chance import SystemChance


def test_a_seed_of_the_interpreter_gives_nobody_the_ids_of_a_broker() -> None:
    ids = set()
    for _ in range(3):
        random.seed(7)
        ids.add(SystemChance().uuid())
    assert len(ids) == 3


def test_no_room_of_the_broker_makes_a_seeded_chance() -> None:
    rooms = Path(eosin.broker.__path__[0]).parent
    for room in ("broker", "client", "coordinator", "protocol", "storage"):
        for module in (rooms / room).rglob("*.py"):
            assert "SeededChance(" not in module.read_text(encoding="utf-8"), module
