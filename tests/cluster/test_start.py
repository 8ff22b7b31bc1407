"""The start of a broker of a quorum as its operator sees it: directories, ids, and one sentence for each refusal."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from joined_broker import JoinedBroker
from kraft_node import SHORT_SESSIONS, QuorumController
from waiting import HANG_S

from eosin.storage.disk.meta_properties import MetaProperties

CONTROLLER = SHORT_SESSIONS


def properties(data_dir: Path) -> MetaProperties:
    return MetaProperties.decode((data_dir / "meta.properties").read_bytes())


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
