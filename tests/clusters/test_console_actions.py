"""What the console of a broker that has joined a cluster changes (console.md 5).

The first broker is alone in its cluster: elsewhere the log of transactions is on whichever broker was asked for it
first, and the console writes test records only where its own broker coordinates them.
"""

from pathlib import Path
from typing import Any

import httpx
import pytest
from cluster_topics import ClusterTopics
from free_ports import free_port
from joined_broker import JoinedBroker
from kraft_node import QuorumController
from real_clients import confluent
from toolchains import skipped_without
from waiting import HANG_S, wait_until
from wire import unique

HEADERS = {"authorization": "Bearer correct-horse"}


def test_the_console_of_one_of_several_machines_makes_changes_and_deletes_topics(
    controller: QuorumController, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("correct-horse")
    settings = {
        "eosin.http.listener": str(free_port()),
        "eosin.http.token.file": str(tmp_path / "token"),
        "eosin.console.enable": "true",
        "eosin.console.actions.enable": "true",
    }
    broker = JoinedBroker(tmp_path / "data", controller, node_id=4, settings=settings)
    name = unique("topic")
    with (
        broker,
        httpx.Client(
            base_url=f"http://{broker.http_address}/api/v1/",
            headers={"authorization": "Bearer correct-horse"},
            timeout=HANG_S,
        ) as http,
    ):

        def act(action: str, **asked: Any) -> str:
            answer = http.post(f"actions/{action}", json=asked)
            assert answer.status_code == 200, answer.text
            return str(answer.json()["text"])

        def topic() -> dict[str, Any]:
            return dict(http.get(f"topics/{name}").json())

        placed = {"partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "1000"}}
        assert act("create-topic", name=name, **placed) == f"Topic {name} is there."
        wait_until(lambda: "topic_id" in topic())  # the broker has read what the controller decided
        which = {"name": name, "topic_id": topic()["topic_id"]}
        changed = act("change-topic", **which, config="retention.ms", value="2000000", before="1000")
        assert changed == f"retention.ms of {name} is 2000000 now."
        assert ClusterTopics(broker.address).settings(name)["retention.ms"] == "2000000"
        assert "offset 0" in act("test-record", partition=f"{name}-0", value="x", outcome="commit")
        assert act("delete-topic", **which, typed=name) == f"Topic {name} was deleted."
        wait_until(lambda: http.get(f"topics/{name}").status_code == 404)


@pytest.mark.full
def test_the_console_of_a_broker_that_coordinates_nothing_says_so(tmp_path: Path) -> None:
    """It writes records to what it leads, and no transaction."""
    (tmp_path / "token").write_text("correct-horse")
    with skipped_without():
        made = QuorumController(tmp_path / "controller")  # of its own: its one coordinator is the first broker
    one_partition = {"transaction.state.log.num.partitions": "1"}
    settings = {
        **one_partition,
        "eosin.http.listener": str(free_port()),
        "eosin.http.token.file": str(tmp_path / "token"),
        "eosin.console.enable": "true",
        "eosin.console.actions.enable": "true",
    }
    with (
        made as controller,
        JoinedBroker(tmp_path / "coordinator", controller, node_id=1, settings=one_partition) as coordinator,
    ):
        producer = confluent.CLIENT.producer(coordinator.address, transactional_id=unique("tx"))
        producer.init()
        producer.close()
        with (
            JoinedBroker(tmp_path / "other", controller, node_id=2, settings=settings) as other,
            httpx.Client(
                base_url=f"http://{other.http_address}/api/v1/",
                headers={"authorization": "Bearer correct-horse"},
                timeout=HANG_S,
            ) as http,
        ):
            topics = ClusterTopics(other.address)
            ours, theirs = topics.create((2,)), topics.create((1,))

            def test_record(topic: str, outcome: str) -> tuple[int, str]:
                asked = {"partition": f"{topic}-0", "value": "x", "outcome": outcome}
                answer = http.post("actions/test-record", json=asked)
                return answer.status_code, answer.text

            assert test_record(ours, "plain")[0] == 200
            code, said = test_record(ours, "commit")
            assert code == 503
            assert "this broker coordinates no transactions: ask another one's console" in said
            code, said = test_record(theirs, "plain")
            assert code == 404
            assert "the broker refuses: NOT_LEADER_OR_FOLLOWER" in said
