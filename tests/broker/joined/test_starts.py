"""The start of a broker of a quorum that cannot be: one sentence for each refusal (cluster.md 1.8, 2.3, 3.7). A real
process says it behind the name of its command (`tests/cluster/test_one_broker.py`)."""

import pytest
from virtual_cluster import VirtualJoinedBroker
from virtual_controllers import VirtualControllers

from eosin.broker.start_error import StartError

pytestmark = pytest.mark.virtual


@pytest.fixture
async def controllers() -> VirtualControllers:
    return VirtualControllers()


async def test_a_second_broker_with_the_same_id_is_refused(controllers: VirtualControllers) -> None:
    first, second = (VirtualJoinedBroker(controllers, 7) for _ in range(2))
    await first.start()
    with pytest.raises(StartError) as refused:
        await second.start()
    assert str(refused.value) == (
        "another broker runs with node.id 7: stop that one, or give this one an id of its own"
    )
    assert first.runs


async def test_controllers_that_have_lost_what_this_broker_has_seen_are_refused(
    controllers: VirtualControllers,
) -> None:
    broker = VirtualJoinedBroker(controllers, 1, {"initial.broker.registration.timeout.ms": "30000"})
    await broker.start()
    await broker.stop()
    seen = f"{broker.data_dir}/eosin.metadata.offset"
    assert int(broker.disk.read_whole(seen)) > 0
    broker.disk.write_atomic(seen, b"1000000\n")
    with pytest.raises(StartError) as refused:
        await broker.start()
    assert "metadata up to offset 1000000 were there before; were the controllers formatted again" in str(refused.value)


MISSING = {"controller.quorum.bootstrap.servers": "127.0.0.1:19", "initial.broker.registration.timeout.ms": "1500"}


async def test_missing_controllers_are_named(controllers: VirtualControllers) -> None:
    with pytest.raises(StartError) as refused:
        await VirtualJoinedBroker(controllers, 1, MISSING).start()
    assert str(refused.value) == (
        "broker 1 could not be registered in 1500 ms (initial.broker.registration.timeout.ms):"
        " BROKER_REGISTRATION had no answer in 1500 ms: the active controller is unknown: cannot connect to"
        " 127.0.0.1:19: Connection refused"
    )


async def test_without_controllers_an_empty_directory_is_not_formatted(controllers: VirtualControllers) -> None:
    broker = VirtualJoinedBroker(controllers, 1, {**MISSING, "eosin.cluster.id": None})
    with pytest.raises(StartError) as refused:
        await broker.start()
    assert "no controller told the id of its cluster in 1500 ms" in str(refused.value)
    assert "(--cluster-id gives the id)" in str(refused.value)
    assert not broker.disk.is_directory(broker.data_dir)
