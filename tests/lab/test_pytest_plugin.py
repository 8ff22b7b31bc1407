"""The fixtures of pytest, in runs of pytest of their own: each is a process, so they are few and show much."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError
from eosin.lab.pytest_plugin import _brokers_of, _of_all, _report_of
from eosin.lab.report import MOST, report_of
from eosin.lab.run import replay_command

pytestmark = [pytest.mark.process, pytest.mark.slow]
pytest_plugins = ["pytester"]

BARE = ("-p", "no:asyncio", "-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "no:timeout", "-p", "no:cacheprovider")
"""As in an environment that has none of these."""

ALL_FIXTURES = """
import threading
import pytest
from confluent_kafka import Producer

def committed(broker, topic, name="t"):
    producer = Producer(broker.conf(transactional_id=name))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.commit_transaction(60)
    return broker.topic(topic).values()

@pytest.mark.parametrize("number", range(3))
def test_a_fresh_broker_each(eosin, number):
    assert eosin.topics() == []
    assert committed(eosin, "orders") == [b"value"]
    assert eosin.transactions("t").outcomes == ["commit"]

class TestMarked:
    pytestmark = pytest.mark.eosin(topics={"orders": 3}, settings={"num.partitions": 2})

    @pytest.mark.eosin(durability="os")
    def test_the_nearest_marker_adds_to_those_around_it(self, eosin):
        assert eosin.topic("orders").partitions == 3

    def test_first(self, eosin_class):
        eosin_class.produce("orders", "kept")

    def test_second(self, eosin_class):
        assert eosin_class.topic("orders").values() == [b"kept"]

def test_names_of_a_shared_broker(eosin_session, eosin_module, eosin_topic, eosin_id):
    assert eosin_module is not eosin_session
    one, two = eosin_topic(), eosin_topic(2, cleanup_policy="compact")
    assert one != two and one.startswith("test_names_of_a_shared_broker-")
    assert sorted(eosin_module.topics()) == sorted([one, two])
    assert eosin_module.topic(two).partitions == 2
    assert eosin_id("invoicing") != eosin_id("invoicing")

@pytest.mark.parametrize("name", ["a b/c"])
def test_a_name_that_no_topic_can_have(eosin_topic, eosin, name):
    assert committed(eosin, eosin_topic()) == [b"value"]

def test_a_factory(eosin_factory):
    first, second = eosin_factory(topics=["a"]), eosin_factory()
    assert (first.topics(), second.topics()) == (["a"], [])

def test_a_client_is_left_behind(eosin):
    global LEFT
    LEFT = Producer(eosin.conf(transactional_id="left"))
    LEFT.init_transactions(60)

def test_the_threads_are_few():
    assert len([each for each in threading.enumerate() if each.name.startswith("eosin-lab")]) <= 4
"""

FAILING = """
import logging
import threading
import pytest

def test_open(eosin):
    eosin.faults.on("Heartbeat").optional().error("UNKNOWN_MEMBER_ID")
    eosin.produce("orders", "w", transactional_id="invoicing-0")
    eosin.produce("orders", "x", transactional_id="invoicing-1", commit=False)
    assert eosin.topic("orders").values() == [b"x"]

@pytest.mark.eosin(topcs=["orders"])
def test_misspelt(eosin):
    pass

@pytest.mark.eosin(settings={"log.segment.byte": 1})
def test_wrong_setting(eosin):
    pass

def test_no_broker():
    assert False
"""

LAB_FEATURES = """
import pytest

@pytest.mark.eosin(topics=["outside"])
def test_of_any_broker(eosin, eosin_topic):
    eosin.produce(eosin_topic(), "x", transactional_id="t")
    assert eosin.transactions("t").state == "CompleteCommit"
    assert "outside" in eosin.topics()

def test_of_the_lab(eosin):
    assert eosin.transactions("t").outcomes == ["commit"]

@pytest.mark.eosin(settings={"num.partitions": 2})
def test_of_a_setting(eosin):
    pass

def test_that_fails(eosin):
    assert eosin.topics() == []

def test_of_a_factory(eosin_factory):
    eosin_factory()
"""


def test_the_fixtures_work_with_warnings_as_errors_and_without_other_plugins(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ALL_FIXTURES)
    result = pytester.runpytest_subprocess("-W", "error", "--strict-markers", *BARE, timeout=HANG_S)
    result.assert_outcomes(passed=11)


def test_workers_have_brokers_of_their_own_and_both_modes_pass_the_same_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ALL_FIXTURES)
    shared = ("-n", "2", "--dist", "loadscope", "-p", "no:asyncio")
    result = pytester.runpytest_subprocess("-W", "error", *shared, "--eosin-mode", "process", timeout=HANG_S)
    result.assert_outcomes(passed=11)


def test_a_failure_tells_of_its_brokers(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(FAILING)
    result = pytester.runpytest_subprocess(*BARE, "--eosin-save", "saved", "--eosin-seed", "7", timeout=HANG_S)
    result.assert_outcomes(failed=2, errors=2)
    result.stdout.fnmatch_lines(
        [
            '*Error: there is no option of a broker "topcs"; did you mean topics?*',
            "*LabError: unknown setting 'log.segment.byte'; did you mean log.segment.bytes?*",
            "*- Eosin -*",
            "broker 127.0.0.1:*, seed 7",
            "  open transactions:",
            "    invoicing-1 has a transaction open since *",
            "  connections: none",
            "  faults:",
            "    f1 (*Heartbeat*): matched 0, fired 0",
            "  history:",
            "    +* prepared invoicing-0 orders-0 commit epoch *",
            "    +* complete invoicing-0 commit",
            "*- Eosin, saved -*",
            "the history of its brokers is in saved/eosin-test_a_failure_tells_of_its_brokers.py-test_open.json*",
            "to repeat it: pytest test_a_failure_tells_of_its_brokers.py::test_open --eosin-seed 7",
        ]
    )
    file = pytester.path / "saved" / "eosin-test_a_failure_tells_of_its_brokers.py-test_open.json"
    saved = json.loads(file.read_bytes())
    assert saved["test"] == "test_a_failure_tells_of_its_brokers.py::test_open"
    (broker,) = saved["brokers"]
    assert [each["transactional_id"] for each in broker["open_transactions"]] == ["invoicing-1"]
    assert broker["history"][-1]["what"] == "complete"
    told = result.stdout.str()
    assert told.count("- Eosin -") == 1
    assert "lab_thread.py" not in told, "the traceback ends at the line of the test"

    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join([*BARE, "--eosin-save", "again"]))
    assert replay_command.main(["replay", str(file)]) == 1
    again = json.loads((pytester.path / "again" / file.name).read_bytes())
    assert (again["test"], again["seeds"], again["again"]) == (saved["test"], [7], saved["again"])


class Configured:
    """As much of pytest's configuration as chooses options."""

    def __init__(self, *, line: dict[str, str], ini: dict[str, str]) -> None:
        self._line, self._ini = line, ini

    def getoption(self, name: str) -> str | None:
        return self._line.get(name)

    def getini(self, name: str) -> str:
        return self._ini.get(name, "")


def test_the_command_line_chooses_before_the_configuration() -> None:
    ini = {"eosin_behaviour": "kafka-3.9", "eosin_seed": "7", "eosin_clock": "frozen"}
    config = Configured(line={"--eosin-behaviour": "eosin"}, ini=ini)
    assert _of_all(config) == {"behaviour": "eosin", "seed": 7, "clock": "frozen"}  # type: ignore[arg-type]
    assert _of_all(Configured(line={}, ini={})) == {}  # type: ignore[arg-type]


def test_the_configuration_chooses_topics_and_nodes_of_every_broker() -> None:
    ini = {"eosin_topics": "orders:3, payments\ninvoices:2", "eosin_nodes": "3", "eosin_strict_clients": "true"}
    assert _of_all(Configured(line={}, ini=ini)) == {  # type: ignore[arg-type]
        "topics": {"orders": 3, "payments": 1, "invoices": 2},
        "nodes": 3,
        "strict_clients": True,
    }


@pytest.mark.parametrize(
    ("line", "ini", "said"),
    [
        ({"--eosin-seed": "x"}, {}, "--eosin-seed, or ini eosin_seed, is a whole number, not 'x'"),
        ({}, {"eosin_nodes": "three"}, "ini eosin_nodes is a whole number, not 'three'"),
        ({}, {"eosin_topics": "orders:many"}, "ini eosin_topics is NAME[:PARTITIONS],..., not 'orders:many'"),
        ({}, {"eosin_strict_clients": "yes"}, "ini eosin_strict_clients is true or false, not 'yes'"),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence(line: dict[str, str], ini: dict[str, str], said: str) -> None:
    with pytest.raises(LabError) as refused:
        _of_all(Configured(line=line, ini=ini))  # type: ignore[arg-type]
    assert str(refused.value) == said


def test_options_of_brokers_that_a_run_starts_are_refused_for_one_that_runs_already(pytester: pytest.Pytester) -> None:
    chosen = ("--eosin-bootstrap", "127.0.0.1:9", "--eosin-seed", "7", "--eosin-behaviour", "eosin")
    result = pytester.runpytest_inprocess(*chosen, "-p", "no:xdist")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --eosin-behaviour and --eosin-seed choose how brokers are that a run starts, and --eosin-bootstrap"
            " names one that runs already: leave out one or the other"
        ]
    )


def test_a_report_of_many_brokers_is_short() -> None:
    class Quiet:
        bootstrap = "127.0.0.1:9092"

        def open_transactions(self) -> list[str]:
            return []

        def call(self, *_: object) -> str:
            return ""

    told = report_of([Quiet() for _ in range(MOST + 2)])  # type: ignore[misc]
    assert told.count("broker 127.0.0.1:9092") == MOST
    assert told.endswith("and 2 more brokers")


def test_a_report_that_fails_leaves_the_run_alone() -> None:
    class Gone:
        @property
        def bootstrap(self) -> str:
            raise OSError(24, "Too many open files")

    told = _report_of([Gone()])  # type: ignore[list-item]
    assert told == "nothing can be told of the brokers: OSError: [Errno 24] Too many open files"


def test_an_outside_broker_is_asked_what_any_broker_tells(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(LAB_FEATURES)
    pytester.makeini("[pytest]\neosin_seed = 7\neosin_nodes = 3\n")
    with Broker(behaviour="eosin") as outside:  # whose commit returns when its markers are written
        outside.topic("outside").create()
        asked = ("--eosin-bootstrap", outside.bootstrap, "--eosin-save", "saved")
        result = pytester.runpytest_subprocess("-rs", *BARE, *asked, timeout=HANG_S)
        result.assert_outcomes(passed=1, skipped=3, failed=1)
        result.stdout.fnmatch_lines_random(
            [
                "eosin: tests ask the broker at 127*; not for it: eosin_seed, eosin_nodes of the configuration",
                "    not told: only a broker of the lab tells who is connected",
                "to repeat it: pytest *::test_that_fails --eosin-bootstrap 127*",
                "the history of its brokers is in saved/*",
                "*only a broker of the lab tells the outcomes of transactions*",
                "*settings cannot be chosen for the broker that --eosin-bootstrap names*",
                "*eosin_factory makes brokers, and --eosin-bootstrap names one*",
            ]
        )
        assert len([each for each in outside.topics() if each.startswith("test_of_any_broker-")]) == 1


def test_a_run_without_the_plugin_has_no_fixture_of_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain():\n    pass\n\ndef test_with(eosin):\n    pass\n")
    result = pytester.runpytest_subprocess("-p", "no:eosin", *BARE, timeout=HANG_S)
    result.assert_outcomes(passed=1, errors=1)


def test_loading_the_plugin_imports_nothing_of_eosin() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import eosin.lab.pytest_plugin; "
        "new = set(sys.modules) - before; "
        "print(*sorted(each for each in new if each.partition('.')[0] not in sys.stdlib_module_names))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert [each for each in loaded.stdout.split() if not each.startswith("__editable__")] == [
        "eosin",
        "eosin.lab",
        "eosin.lab.pytest_plugin",
    ]


def test_a_fixture_of_the_same_name_may_be_anothers() -> None:
    assert _brokers_of(SimpleNamespace(funcargs={"eosin": object(), "other": 1})) == {}  # type: ignore[arg-type]
