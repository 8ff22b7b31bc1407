"""The dashboard and the alert rules ask for metrics that a broker has, and the compose file for files that exist."""

import json
import os
import re
import socket
import subprocess
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Consumer, KafkaException, Producer
from dependency_locks import wanted
from observed_broker import ORDERS_0, observed_broker
from toolchains import skipped_without, tool
from waiting import HANG_S, wait_until
from wire import unique

from eosin.cli.serve import configured

ROOT = Path(__file__).parent.parent
OBSERVE = ROOT / "docker" / "observe"
COMPOSE = (ROOT / "docker" / "compose.observe.yaml").read_text()
GOLDEN = ROOT / "tests" / "observe" / "metrics" / "metrics.txt"
IN_A_CLUSTER = {
    "kafka_server_replicamanager_isrshrinks": "",
    "kafka_server_replicamanager_isrexpands": "",
    "eosin_follower_max_lag_records": "follower",
}
WITHOUT_SAMPLES = {"eosin_marker_errors_total": {"error"}, "kafka_consumergroup_members": {"consumergroup"}}
"""Of the golden file's broker."""
OF_THE_LIBRARY = {"process_resident_memory_bytes": "", "up": ""}
FUNCTIONS = {
    *("sum", "by", "rate", "max", "topk", "histogram_quantile", "increase", "and", "deriv", "changes"),
    *("min_over_time", "avg_over_time", "unless"),
}


def known() -> dict[str, set[str]]:
    """The labels of each sample, by its name."""
    found: dict[str, set[str]] = {}
    for line in GOLDEN.read_text().splitlines():
        name, kind, *labels = line.split()
        own = set(labels[0].split(",")) if labels else set()
        if kind == "counter":
            found[f"{name}_total"] = own
        elif kind == "histogram":
            found |= {f"{name}_{end}": own for end in ("bucket", "sum", "count")}
        else:
            found[name] = own
    for name, labels in (IN_A_CLUSTER | OF_THE_LIBRARY).items():
        found[f"{name}_total" if "isr" in name else name] = {labels} - {""}
    return found | WITHOUT_SAMPLES


def expressions() -> list[str]:
    dashboard = json.loads((OBSERVE / "grafana-eosin.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    rules = (OBSERVE / "alerts.yaml").read_text()
    asked += re.findall(r"expr: (?!>-)(.+)", rules)
    return asked + [" ".join(text.split()) for text in re.findall(r"expr: >-\n((?: {10}.+\n)+)", rules)]


def test_every_expression_asks_for_metrics_and_labels_that_there_are() -> None:
    metrics = known()
    assert len(expressions()) > 40
    for expression in expressions():
        bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)|\"[^\"]*\"", " ", expression)
        names = {word for word in re.findall(r"[a-z_]{2,}", bare) if word not in FUNCTIONS}
        assert names, expression
        assert names <= set(metrics), expression
        labels = {"instance", "job", *(label for name in names for label in metrics[name])}
        asked = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression))
        asked |= {each.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for each in group.split(",")}
        assert asked <= labels, expression


def test_each_alert_says_which_question_to_ask() -> None:
    rules = (OBSERVE / "alerts.yaml").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert len(alerts) == len(set(alerts)) == rules.count("          ask: ") == rules.count("          summary: ")
    assert rules.count("eosin explain") >= 6
    tested = set(re.findall(r"alertname: (\w+)", (OBSERVE / "alerts_test.yaml").read_text()))
    assert tested <= set(alerts)


def test_the_panels_of_the_dashboard_do_not_lie_on_each_other() -> None:
    dashboard = json.loads((OBSERVE / "grafana-eosin.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_the_dashboard_has_what_grafana_asks_of_one() -> None:
    """Grafana itself is in no package index: the names are those of its schema of dashboards (schemaVersion 39)."""
    dashboard = json.loads((OBSERVE / "grafana-eosin.json").read_text())
    assert {"uid", "title", "schemaVersion", "time", "templating"} <= set(dashboard)
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    (asked,) = re.findall(r"label_values\((\w+), (\w+)\)", variables["instance"]["query"])
    assert asked == ("eosin_build_info", "instance")
    assert asked[0] in known()
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert variables["datasource"]["query"] == source["type"]
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))
    for panel in dashboard["panels"]:
        assert {"title", "gridPos"} <= set(panel)
        if panel["type"] == "row":
            continue
        assert (panel["type"], panel["datasource"]) == ("timeseries", source), panel["title"]
        letters = [target["refId"] for target in panel["targets"]]
        assert len(letters) == len(set(letters)) > 0, panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == source, panel["title"]
            used = set(re.findall(r"\$\{?(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= set(variables), panel["title"]
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            names = re.findall(r"[a-z_]{2,}", re.sub(r"\{[^}]*\}|\[[^]]*\]", " ", target["expr"]))
            assert labels <= {"instance", *(each for name in names for each in known().get(name, ()))}, panel["title"]


def test_the_compose_file_names_files_that_exist_and_a_broker_that_starts_so() -> None:
    mounted = re.findall(r'"\./(\S+?):', COMPOSE)
    assert len(mounted) == 5
    assert all((ROOT / "docker" / each).is_file() for each in mounted)
    config = configured(re.findall(r"^ +- (--\S+)$", COMPOSE, re.MULTILINE)).config
    assert config.eosin_http_listener == "0.0.0.0:9100"
    assert config.eosin_http_public_metrics
    scraped = (OBSERVE / "prometheus.yaml").read_text()
    assert '"broker:9100"' in scraped


def test_the_image_for_it_has_the_libraries_of_the_extra() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["http"]
    observed = re.search(r"AS build-observed\nRUN .* --requirement (/locks/\S+)\n", dockerfile)
    assert observed is not None
    assert observed[1] == "/locks/observed.txt"
    assert set(extra) <= set(wanted()["observed"])


def promtool(*command: str, given: bytes = b"", codes: tuple[int, ...] = (0,), folder: Path = OBSERVE) -> str:
    """What it says; it exits with one of `codes`."""
    with skipped_without():
        path = os.environ.get("PROMTOOL") or tool("promtool", "the alert rules, the dashboard and the text of metrics")
    done = subprocess.run([path, *command], cwd=folder, input=given, capture_output=True, timeout=HANG_S, check=False)
    told = (done.stdout + done.stderr).decode()
    assert done.returncode in codes, told
    return told


@pytest.mark.process
def test_promtool_finds_nothing_wrong_with_the_alerts() -> None:
    promtool("check", "config", "prometheus.yaml")
    promtool("test", "rules", "alerts_test.yaml")


@pytest.mark.process
def test_promtool_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    asked = [each.replace("$__rate_interval", "1m") for each in expressions()]  # what Grafana puts in itself
    rules = [{"record": f"query:{number}", "expr": each} for number, each in enumerate(asked)]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", "rules.json", folder=tmp_path)


@pytest.mark.process
async def test_promtool_reads_what_a_broker_answers() -> None:
    """`check metrics` also has opinions about names; those of Kafka's dashboards are not ours to change."""
    async with observed_broker() as broker:
        producer = await broker.producer("invoicing")
        await producer.append(ORDERS_0, 3)
        await producer.commit_offsets('a "group" \\ of\nlines', ORDERS_0, 1)
        await producer.commit()
        await producer.completed()
        body = (await broker.get("metrics")).body
    told = promtool("check", "metrics", given=body, codes=(0, 3)).splitlines()
    assert not [line for line in told if line.startswith("error")], told
    ours = [line for line in told if line.startswith("eosin_")]
    assert not ours, ours


NEEDS_MORE = {"Refusals", "ISR changes", "Followers behind"}
"""Panels that stay empty beside a broker that is alone and refuses no marker."""


@pytest.mark.process
@pytest.mark.slow
def test_a_prometheus_fills_the_panels_of_the_dashboard_and_fires_alerts(tmp_path: Path) -> None:
    with skipped_without():
        program = os.environ.get("PROMETHEUS") or tool("prometheus", "a real scrape of a broker")
    broker = BrokerProcess(tmp_path / "data", durability="memory")
    broker.options = ("--http", "0")
    with broker:
        http = broker.http_address
        scraping = (OBSERVE / "prometheus.yaml").read_text().replace("broker:9100", http)
        (tmp_path / "prometheus.yaml").write_text(scraping.replace("5s", "1s"))
        (tmp_path / "alerts.yaml").write_bytes((OBSERVE / "alerts.yaml").read_bytes())
        with prometheus(program, tmp_path) as address:
            kept = [producing(broker, "holder", topic="held", timeout_ms=600_000)]

            def are_filled() -> bool:
                kept.extend(make_traffic(broker))  # again and again: rates are made of what changes between scrapes
                return not empty_panels(address) - NEEDS_MORE

            wait_until(are_filled, every_s=0.5, why=lambda: f"without data: {empty_panels(address)}")
            wait_until(lambda: rules_of(address) == {"ok"}, lambda: f"rules: {rules_of(address)}")

            def have_fired() -> bool:
                kept.extend(make_traffic(broker))  # one more transaction that runs out of time
                return ("EosinTransactionTimeouts", "firing") in alerts_of(address)

            wait_until(have_fired, every_s=0.5, why=lambda: f"alerts: {alerts_of(address)}")
            fired = alerts_of(address)["EosinTransactionTimeouts", "firing"]
            assert re.fullmatch(rf"[0-9.]+ transactions of {http} ran out of time in ten minutes", fired["summary"])
            assert fired["ask"].startswith("eosin explain ")
            assert not {each for each in alerts_of(address) if each[1] == "firing"} - {
                ("EosinTransactionTimeouts", "firing")
            }
            broker.kill()
            wait_until(lambda: ("EosinDown", "pending") in alerts_of(address), lambda: f"alerts: {alerts_of(address)}")
            assert alerts_of(address)["EosinDown", "pending"]["summary"] == f"{http} does not answer its scrapes"


@contextmanager
def prometheus(program: str, folder: Path) -> Iterator[str]:
    """HOST:PORT of one with the configuration of `folder`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [program, "--config.file=prometheus.yaml", "--storage.tsdb.path=data-of-it"]
    with (folder / "prometheus.log").open("wb") as log:
        running = subprocess.Popen([*words, f"--web.listen-address={address}"], cwd=folder, stdout=log, stderr=log)
    try:
        yield address
    finally:
        running.terminate()
        running.wait(HANG_S)


def producing(broker: BrokerProcess, name: str, *, topic: str = "orders", timeout_ms: int = 60_000) -> Producer:
    """A producer with an open transaction."""
    settings = {"bootstrap.servers": broker.address, "transactional.id": name, "transaction.timeout.ms": timeout_ms}
    made = Producer({**settings, "log_level": 0})
    made.init_transactions(HANG_S)
    made.begin_transaction()
    made.produce(topic, b"book", partition=0)
    assert made.flush(HANG_S) == 0
    return made


def make_traffic(broker: BrokerProcess) -> list[Producer]:
    """Transactions that are committed and one that runs out of time, with an id of its own, or the next one would abort
    it before; a producer that is fenced, and a reader. The producers are still connected."""
    shop, slow = producing(broker, "shop-1"), producing(broker, unique("slow"), timeout_ms=1000)
    old, new = producing(broker, "shop-2"), producing(broker, "shop-2")
    shop.commit_transaction(HANG_S)
    with pytest.raises(KafkaException):
        old.commit_transaction(HANG_S)
    settings = {"bootstrap.servers": broker.address, "log_level": 0, "group.id": "readers"}
    reader = Consumer({**settings, "auto.offset.reset": "earliest"})
    reader.subscribe(["orders"])
    assert reader.consume(1, HANG_S)
    reader.commit(asynchronous=False)
    reader.close()
    return [shop, slow, new]


def empty_panels(address: str) -> set[str]:
    """The titles of panels of which a query has no answer."""
    dashboard = json.loads((OBSERVE / "grafana-eosin.json").read_text())
    asked = [(panel["title"], each["expr"]) for panel in dashboard["panels"] for each in panel.get("targets", ())]
    return {title for title, expression in asked if not answers(address, expression)}


def answers(address: str, expression: str) -> bool:
    query = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
    return bool(told_by(address, f"query?query={urllib.parse.quote(query)}")["result"])


def rules_of(address: str) -> set[str]:
    """How the rules are: `ok` once each was evaluated."""
    return {each["health"] for group in told_by(address, "rules")["groups"] for each in group["rules"]}


def alerts_of(address: str) -> dict[tuple[str, str], dict[str, str]]:
    """The annotations of each alert that is not at rest, by its name and its state: `pending` or `firing`."""
    told = told_by(address, "alerts").get("alerts", ())
    return {(each["labels"]["alertname"], each["state"]): each["annotations"] for each in told}


def told_by(address: str, path: str) -> Any:
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=HANG_S) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError:
        raise
    except OSError:
        return {"result": [], "groups": []}  # it does not listen yet
