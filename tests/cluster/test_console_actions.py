"""What the console of a broker that has joined a cluster changes (console.md 5).

The broker is alone in its cluster: elsewhere the log of transactions is on whichever broker was asked for it first, and
the console writes test records only where its own broker coordinates them.
"""

from pathlib import Path
from typing import Any

import httpx
from broker_process import wait_until
from free_ports import free_port
from joined_broker import JoinedBroker
from kraft_node import QuorumController
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
            timeout=40,
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
        wait_until(lambda: "topic_id" in topic(), 40)  # the broker has read what the controller decided
        which = {"name": name, "topic_id": topic()["topic_id"]}
        changed = act("change-topic", **which, config="retention.ms", value="2000000", before="1000")
        assert changed == f"retention.ms of {name} is 2000000 now."
        described = controller.run(
            "kafka-topics.sh", "--bootstrap-server", broker.address, "--describe", "--topic", name
        )
        assert "retention.ms=2000000" in described
        assert "offset 0" in act("test-record", partition=f"{name}-0", value="x", outcome="commit")
        assert act("delete-topic", **which, typed=name) == f"Topic {name} was deleted."
        wait_until(lambda: http.get(f"topics/{name}").status_code == 404, 40)
