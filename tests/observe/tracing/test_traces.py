"""Transactions of an unmodified client as spans at a real OTLP receiver (console.md 4.4)."""

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from broker_process import BrokerProcess
from confluent_kafka import KafkaException, Producer
from observed_broker import ORDERS_0, observed_broker
from otlp_receiver import OtlpReceiver, plain
from waiting import HANG_S
from wire import unique

from eosin.observe.tracing.span_queue import BATCH
from eosin.settings.settings import SettingError
from eosin.settings.tracing import traces_url

pytestmark = pytest.mark.process

INTERNAL = 1
ERROR = 2


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, receiver: OtlpReceiver) -> Iterator[BrokerProcess]:
    process = BrokerProcess(
        tmp_path_factory.mktemp("traces") / "data",
        settings={
            "eosin.tracing.endpoint": receiver.url,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        },
    )
    with process:
        yield process


def producer(broker: BrokerProcess, name: str, **settings: Any) -> Producer:
    made = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": name, "client.id": "orders-7", "log_level": 0}
        | {key.replace("_", "."): value for key, value in settings.items()}
    )
    made.init_transactions(HANG_S)
    return made


def write(made: Producer, topic: str) -> None:
    made.begin_transaction()
    made.produce(topic, b"x", partition=0)
    made.flush(HANG_S)


@pytest.mark.slow
def test_a_clients_transaction_is_a_span_with_its_events(broker: BrokerProcess, receiver: OtlpReceiver) -> None:
    name, topic = unique("orders"), unique("topic")
    before_ms = time.time_ns() // 1_000_000
    made = producer(broker, name)
    write(made, topic)
    made.commit_transaction(HANG_S)
    span = receiver.wait_for(lambda span: span.name == f"transaction {name}")
    told = plain(span.attributes)
    assert told["eosin.outcome"] == "commit"
    assert told["eosin.partitions"] == [f"{topic}-0"]
    assert told["messaging.client.id"] == "orders-7"
    assert told["user_agent.original"].startswith("confluent-kafka-python/")
    events = [event.name for event in span.events]
    assert (events[0], events[-1]) == ("begin", "markers_written"), events
    assert "prepared" in events
    assert span.kind == INTERNAL
    assert span.status.code != ERROR
    assert not span.parent_span_id
    assert before_ms * 1_000_000 <= span.start_time_unix_nano <= span.end_time_unix_nano <= time.time_ns()
    resource = receiver.resources[-1]
    assert resource["service.name"] == "eosin"
    assert resource["service.instance.id"].endswith("/1")


@pytest.mark.slow
def test_a_transaction_that_ran_out_of_time_says_so_and_its_producer_joins_the_trace(
    broker: BrokerProcess, receiver: OtlpReceiver
) -> None:
    name = unique("slow")
    made = producer(broker, name, transaction_timeout_ms=1000)
    write(made, unique("topic"))
    span = receiver.wait_for(lambda span: span.name == f"transaction {name}")
    assert plain(span.attributes)["eosin.outcome"] == "timeout"
    assert span.status.code == ERROR
    assert "it ran out of time" in span.status.message
    (event,) = [event for event in span.events if event.name == "timeout"]
    assert plain(event.attributes)["eosin.cause"] == "timeout"
    with pytest.raises(KafkaException):
        made.commit_transaction(HANG_S)
    refused = receiver.wait_for(lambda span: span.name == f"fenced {name}")
    assert refused.trace_id == span.trace_id
    assert refused.parent_span_id == span.span_id
    assert plain(refused.attributes)["eosin.cause"] == "timeout"


@pytest.mark.slow
def test_a_fenced_transaction_names_its_successor(broker: BrokerProcess, receiver: OtlpReceiver) -> None:
    name = unique("twins")
    made = producer(broker, name)
    write(made, unique("topic"))
    newer = producer(broker, name, client_id="orders-8")
    span = receiver.wait_for(lambda span: span.name == f"transaction {name}")
    assert plain(span.attributes)["eosin.outcome"] == "fenced"
    (event,) = [event for event in span.events if event.name == "fenced"]
    told = plain(event.attributes)
    assert told["eosin.cause"] == "successor"
    assert "a new instance, orders-8" in told["eosin.reason"]
    assert told["eosin.reason"] == span.status.message
    del made, newer


@pytest.mark.parametrize("trouble", ["slow", "gone", "refusing"])
async def test_a_collector_in_trouble_costs_spans_and_nothing_else(
    trouble: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1")
    with OtlpReceiver() as receiver:
        url = "http://127.0.0.1:9" if trouble == "gone" else receiver.url
        if trouble == "slow":
            receiver.go_on.clear()
        receiver.status = 400 if trouble == "refusing" else 200
        settings = {"eosin_tracing_endpoint": url, "eosin_tracing_queue_max_spans": 64}
        async with observed_broker(**settings) as broker:
            producer = await broker.producer("tx-1")
            for _ in range(200):
                await producer.add(ORDERS_0)
                await producer.commit()
            text = (await broker.get("metrics")).body.decode()
            lost = counted(text, "dropped") + counted(text, "failed")
            (waiting,) = [line for line in text.splitlines() if line.startswith("eosin_tracing_queue_spans ")]
            waits = int(float(waiting.split()[-1]))
            assert counted(text, "sent") == 0
            assert waits <= 64, "the queue is bounded"
            assert 200 - BATCH <= lost + waits <= 200
        receiver.go_on.set()
    lines = [record for record in caplog.records if "spans were lost on the way to" in record.getMessage()]
    assert 1 <= len(lines) <= 2, "once a minute, and at the stop"


def counted(text: str, result: str) -> int:
    (line,) = [each for each in text.splitlines() if f'eosin_tracing_spans_total{{result="{result}"}}' in each]
    return int(float(line.split()[-1]))


@pytest.mark.parametrize(("ratio", "told"), [(0.25, 25), (1.0, 100)])
async def test_waiting_spans_are_sent_at_a_stop_and_the_ratio_holds(ratio: float, told: int) -> None:
    with OtlpReceiver() as receiver:
        async with observed_broker(eosin_tracing_endpoint=receiver.url, eosin_tracing_ratio=ratio) as broker:
            producer = await broker.producer("tx-1")
            for _ in range(100):
                await producer.add(ORDERS_0)
                await producer.commit()
        assert len(receiver.spans) == told
        # Though some began within the same ms.
        assert len({span.trace_id for span in receiver.spans}) == told


WITHOUT_EXTRA = """
import sys
sys.modules["opentelemetry"] = None
from eosin.cli.__main__ import main
sys.exit(main(["serve", "--durability", "memory", "--listen", "127.0.0.1:0", *sys.argv[1:]]))
"""


def serve_without_extra(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT_EXTRA, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def test_without_its_libraries_the_start_says_what_to_install() -> None:
    done = serve_without_extra("--set", "eosin.tracing.endpoint=http://127.0.0.1:4318")
    assert done.returncode == 2
    assert done.stderr == 'eosin serve: eosin.tracing.endpoint needs: pip install "eosin[otel]"\n'


def test_a_broker_without_an_endpoint_imports_nothing_of_it() -> None:
    program = "import sys, eosin.node.observability, eosin.node.node; print([m for m in sys.modules if 'telem' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("collector:4317", "URL of an OTLP collector"),
        ("grpc://collector:4317", "URL of an OTLP collector"),
        ("http://", "URL of an OTLP collector"),
        ("http://collector:x", "URL of an OTLP collector"),
        ("https://me:secret@collector", "OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_an_endpoint_that_takes_no_traces_is_refused_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        traces_url(text)


def test_an_endpoint_without_a_path_gets_otlps_own() -> None:
    assert traces_url("http://collector:4318") == "http://collector:4318/v1/traces"
    assert traces_url("https://collector/") == "https://collector/v1/traces"
    assert traces_url("https://gateway/otlp/v1/traces") == "https://gateway/otlp/v1/traces"
