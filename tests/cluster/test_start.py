"""The start of a broker of a quorum as its operator sees it: directories, ids, and one sentence for each refusal."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from free_ports import free_port
from joined_broker import JoinedBroker
from kraft_node import SHORT_SESSIONS, QuorumController
from waiting import HANG_S

from eosin.storage.disk.meta_properties import MetaProperties

CONTROLLER = SHORT_SESSIONS


def properties(data_dir: Path) -> MetaProperties:
    return MetaProperties.decode((data_dir / "meta.properties").read_bytes())


def sentences(said: str) -> list[str]:
    """The lines that the command itself has said, not its log."""
    return [line for line in said.splitlines() if line.startswith("eosin serve: ")]


def test_a_formatted_directory_needs_no_cluster_id(
    controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    node_id, data_dir = next(node_ids), tmp_path / "data"
    identity = ("--cluster-id", controller.cluster_id, "--node-id", str(node_id))
    command = [sys.executable, "-m", "eosin.broker", "format", *identity, "--data-dir", str(data_dir)]
    subprocess.run(command, check=True, timeout=HANG_S)
    before = properties(data_dir)
    broker = JoinedBroker(data_dir, controller, node_id=node_id)
    broker.options = ()
    with broker:
        assert properties(data_dir) == before


def test_an_empty_directory_is_formatted_for_the_cluster_of_the_controllers(
    controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    broker = JoinedBroker(tmp_path / "data", controller, node_id=next(node_ids))
    broker.options = ()
    with broker:
        assert properties(broker.data_dir).cluster_id == controller.cluster_id


def test_a_clean_stop_names_the_epoch_and_a_kill_does_not(
    controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    broker = JoinedBroker(tmp_path / "data", controller, node_id=next(node_ids)).start()
    epoch = (broker.data_dir / "eosin.broker.epoch").read_text()
    assert epoch.startswith('{"version":0,"brokerEpoch":')
    assert broker.stop() == 0
    assert (broker.data_dir / ".kafka_cleanshutdown").read_text() == epoch
    broker.start()
    assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
    assert (broker.data_dir / "eosin.broker.epoch").read_text() != epoch
    broker.kill()
    assert not (broker.data_dir / ".kafka_cleanshutdown").exists()


def test_a_second_process_with_the_same_id_is_refused_in_one_sentence(
    controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    node_id = next(node_ids)
    with JoinedBroker(tmp_path / "data", controller, node_id=node_id, settings=SHORT_SESSIONS) as first:
        second = JoinedBroker(tmp_path / "other", controller, node_id=node_id, settings=SHORT_SESSIONS)
        (sentence,) = sentences(second.refusal())
        assert sentence == (
            f"eosin serve: another broker runs with node.id {node_id}: stop that one, or give this one an id of its own"
        )
        assert first.running


def test_controllers_that_have_lost_what_this_broker_has_seen_are_refused_in_one_sentence(
    controller: QuorumController, node_ids: Iterator[int], tmp_path: Path
) -> None:
    settings = {"initial.broker.registration.timeout.ms": "3000"}
    broker = JoinedBroker(tmp_path / "data", controller, node_id=next(node_ids), settings=settings)
    with broker:
        pass
    seen = broker.data_dir / "eosin.metadata.offset"
    assert int(seen.read_text()) > 0
    seen.write_text("1000000\n")
    (sentence,) = sentences(broker.refusal())
    assert "metadata up to offset 1000000 were there before; were the controllers formatted again" in sentence


def test_a_missing_controller_is_one_sentence(controller: QuorumController, tmp_path: Path) -> None:
    missing = f"127.0.0.1:{free_port()}"
    settings = {
        "controller.quorum.bootstrap.servers": missing,
        "initial.broker.registration.timeout.ms": "1500",
    }
    broker = JoinedBroker(tmp_path / "data", controller, node_id=1, settings=settings)
    (sentence,) = sentences(broker.refusal())
    assert sentence == (
        "eosin serve: broker 1 could not be registered in 1500 ms (initial.broker.registration.timeout.ms):"
        " BROKER_REGISTRATION had no answer in 1500 ms: the active controller is unknown: cannot connect to"
        f" {missing}: Connection refused"
    )
    broker.options = ()
    broker.data_dir = tmp_path / "unformatted"
    (sentence,) = sentences(broker.refusal())
    assert "no controller told the id of its cluster in 1500 ms" in sentence
    assert "(--cluster-id gives the id)" in sentence
    assert not broker.data_dir.exists()
