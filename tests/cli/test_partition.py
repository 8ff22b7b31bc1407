"""`eosin partition accept-loss`: the word of an operator about a copy (cluster.md 4.18)."""

from pathlib import Path

import pytest

from eosin.cli.__main__ import main
from eosin.protocol.names import TopicPartition
from eosin.storage.disk.lost_copies import LostCopies
from eosin.storage.disk.system import SystemDisk

ORDERS = TopicPartition("shop-orders", 7)


def accept(folder: Path) -> int:
    return main(["partition", "accept-loss", str(ORDERS), "--data-dir", str(folder)])


def test_a_loss_is_accepted_for_a_broker_that_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = LostCopies(SystemDisk(), str(tmp_path))
    copies.wait(ORDERS, ())
    assert accept(tmp_path) == 0
    assert capsys.readouterr().out.startswith("accepted: ")
    assert copies.is_accepted(ORDERS)


def test_a_loss_for_which_nobody_waits_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert accept(tmp_path) == 2
    assert "waits for no decision" in capsys.readouterr().err


def test_a_loss_is_refused_while_others_have_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = LostCopies(SystemDisk(), str(tmp_path))
    copies.wait(ORDERS, (2, 3))
    assert accept(tmp_path) == 2
    said = capsys.readouterr().err
    assert "shop-orders-7 has copies on other brokers that run (2, 3)" in said
    assert "--election-type unclean --topic shop-orders --partition 7" in said
    assert not copies.is_accepted(ORDERS)
