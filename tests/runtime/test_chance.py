"""Where random ids come from."""

import random

from eosin.runtime.chance import SystemChance


def test_a_seed_of_the_interpreter_gives_nobody_the_ids_of_a_broker() -> None:
    ids = set()
    for _ in range(3):
        random.seed(7)
        ids.add(SystemChance().uuid())
    assert len(ids) == 3
