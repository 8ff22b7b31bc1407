"""Starts of a broker of a quorum: what it finds and leaves in its directory, and one sentence for each refusal
(cluster.md 1.6, 1.8, 2.3, 3.7, 7.5). A real process says it behind the name of its command
(`tests/clusters/test_one_broker.py`)."""

import json

import pytest
from virtual_cluster import VirtualJoinedBroker
from virtual_controllers import VirtualControllers

from eosin.protocol.schemas.records.metadata import AccessControlEntryRecord
from eosin.settings.start_error import StartError

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
        " 127.0.0.1:19: Connection refused (nothing listens there)"
    )


async def test_without_controllers_an_empty_directory_is_not_formatted(controllers: VirtualControllers) -> None:
    broker = VirtualJoinedBroker(controllers, 1, {**MISSING, "eosin.cluster.id": None})
    with pytest.raises(StartError) as refused:
        await broker.start()
    assert "no controller told the id of its cluster in 1500 ms" in str(refused.value)
    assert "(--cluster-id gives the id)" in str(refused.value)
    assert not broker.disk.is_directory(broker.data_dir)


@pytest.mark.parametrize(
    ("features", "told"),
    [
        (
            {"group.version": 2, "share.version": 1, "streams.version": 2},
            "group.version at level 2 (Eosin supports 0 to 1) and streams.version at level 2 (Eosin supports 0 to 1):"
            " lower them with kafka-features.sh --bootstrap-controller {controllers} downgrade --feature"
            " group.version=1 --feature streams.version=1, or format the controllers of a new cluster with these"
            " options",
        ),
        (
            {"metadata.version": 24},
            "metadata.version at level 24 (Eosin supports 25 to 33): raise it with kafka-features.sh"
            " --bootstrap-controller {controllers} upgrade --feature metadata.version=25",
        ),
    ],
    ids=["of a later release", "too old"],
)
async def test_a_cluster_with_features_beyond_this_broker_is_refused(features: dict[str, int], told: str) -> None:
    with pytest.raises(StartError) as refused:
        await VirtualJoinedBroker(VirtualControllers(features=features), 1).start()
    assert str(refused.value) == f"the cluster has {told.format(controllers=VirtualControllers.address)}"


async def test_without_an_authorizer_it_stays_out_unless_it_is_told_to_serve_everybody(
    controllers: VirtualControllers,
) -> None:
    entry = AccessControlEntryRecord(b"1" * 16, 2, "orders", 3, "User:mallory", "*", 4, 2)
    controllers.write(entry)
    broker = VirtualJoinedBroker(controllers, 1)
    with pytest.raises(
        StartError, match=r"access control entries \(1\), and this broker no authorizer to decide by them"
    ):
        await broker.start()
    await VirtualJoinedBroker(controllers, 2, {"eosin.ignore.acls": "true"}).start()


async def test_a_clean_stop_names_the_epoch_and_a_kill_does_not(controllers: VirtualControllers) -> None:
    broker = VirtualJoinedBroker(controllers, 1)
    epoch, clean = f"{broker.data_dir}/eosin.broker.epoch", f"{broker.data_dir}/.kafka_cleanshutdown"
    await broker.start()
    first = broker.disk.read_whole(epoch)
    assert first.startswith(b'{"version":0,"brokerEpoch":')
    await broker.stop()
    assert json.loads(broker.disk.read_whole(clean)) == {"version": 0, "brokerEpoch": json.loads(first)["brokerEpoch"]}
    await broker.start()
    assert broker.disk.size(clean) is None
    assert broker.disk.read_whole(epoch) != first
    broker.kill()
    assert broker.disk.size(clean) is None
