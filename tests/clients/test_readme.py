"""The examples of the README run as they stand, and print what they promise; so does the one that goes on from them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from real_clients import confluent
from real_clients.base import read_all
from scenario import Scenario
from waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]


def _examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def _run(example: str, data_dir: Path) -> str:
    """Run an example against a broker of its own."""
    with BrokerProcess(data_dir) as broker:
        return _run_at(example, broker)


def _run_at(example: str, broker: BrokerProcess) -> str:
    """Run an example, as the only thing changed its address. It has nothing to complain of."""
    assert "127.0.0.1:9092" in example
    code = example.replace("127.0.0.1:9092", broker.address)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("index", range(3), ids=["confluent-kafka", "kafka-python", "aiokafka"])
def test_each_example_of_the_readme_writes_and_reads_a_transaction(data_dir: Path, index: int) -> None:
    examples = _examples("README.md")
    assert len(examples) == 3
    assert _run(examples[index], data_dir) == "b'one book'\n"


def test_examples_of_the_readme_leave_no_group_member_behind(data_dir: Path) -> None:
    with BrokerProcess(data_dir) as broker:
        assert [_run_at(each, broker) for each in _examples("README.md")] == ["b'one book'\n"] * 3


def test_the_example_that_transforms_makes_invoices_of_the_orders(data_dir: Path) -> None:
    orders, invoices = _examples("README.md")[0], _examples("docs/clients/python.md")[3]
    with BrokerProcess(data_dir) as broker:
        assert _run_at(orders, broker) == "b'one book'\n"
        assert _run_at(invoices, broker) == ""
        scenario = Scenario(confluent.CLIENT, broker.address)
        assert [each.value for each in read_all(scenario.reader("invoices"), 1)] == [b"invoice for one book"]
        scenario.close()
