"""The short form of `make hostile`: each case once, in small, against one broker process.

Nothing is timed. While a case is under way honest clients are answered rightly, and afterwards the broker holds no more
memory than before and has written no more into its log than it may.
"""

import time
from collections.abc import Iterator

import pytest
from hostile.cases import CASES
from hostile.field import Case, Field, attacked
from hostile.figures import log_misses
from hostile.honest import HONEST
from hostile.secured_broker import SecuredBroker, secured_broker
from waiting import until

pytestmark = [pytest.mark.process, pytest.mark.full]

SCALE = 0.05
MOST_MIB = 100
"""More than any of them takes in small, and less than one of them that is not let go takes many times."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("hostile")) as broker:
        yield broker
        log = broker.log
        assert broker.process.stop() == 0
        assert "Traceback" not in log


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_honest_clients_are_answered_beside_a_hostile_one(broker: SecuredBroker, case: Case) -> None:
    memory, log, began = broker.resident_mib, len(broker.log), time.monotonic()
    done: list[str] = []
    async with attacked(case, Field(broker.place, SCALE)) as field:
        for kind in HONEST:
            honest = kind(broker.place)
            await honest.open()
            try:
                await honest.once(done.append)
            finally:
                await honest.close()
    assert done == [name for kind in HONEST for name in kind.kinds]
    assert field.bouts > 0
    await until(lambda: broker.resident_mib < memory + MOST_MIB)
    assert list(log_misses(case, broker.log[log:], time.monotonic() - began)) == []
