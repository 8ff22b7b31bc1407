"""An end that comes late, under TV1 and under TV2: two different facts, which the history tells apart."""

import pytest

from eosin.lab.broker import Broker

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("behaviour", "answers", "prepared"),
    [
        ("kafka-3.9", ["NONE", "INVALID_TXN_STATE"], ["commit epoch 0, TV1", "commit epoch 0, TV1"]),
        ("kafka", ["PRODUCER_FENCED", "NONE"], ["commit epoch 1, TV2", "abort epoch 2, TV2"]),
    ],
)
def test_a_late_commit_ends_another_transaction_where_they_share_an_epoch(
    behaviour: str, answers: list[str], prepared: list[str]
) -> None:
    with Broker(topics=["orders"], behaviour=behaviour) as broker:
        application = broker.successor("shop")
        assert application.write("orders", "first") == "NONE"
        network = broker.zombie("shop")  # keeps the first commit, and delivers it late
        assert application.commit() == "NONE"
        assert application.write("orders", "given up") == "NONE"
        assert [network.commit(), application.abort()] == answers
        assert [each.detail for each in broker.history.events() if each.what == "prepared"] == prepared
        committed = [b"first", b"given up"] if answers[0] == "NONE" else [b"first"]
        assert broker.topic("orders").values() == committed
