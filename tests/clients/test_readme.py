"""The examples of the README and of the quick start run as they stand, and print what they promise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]


def _examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def _run(example: str, data_dir: Path) -> str:
    """Run an example against a broker of its own, as the only thing changed its address."""
    with BrokerProcess(data_dir) as broker:
        assert "127.0.0.1:9092" in example
        code = example.replace("127.0.0.1:9092", broker.address)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("index", range(3), ids=["confluent-kafka", "kafka-python", "aiokafka"])
def test_each_example_of_the_readme_writes_and_reads_a_transaction(data_dir: Path, index: int) -> None:
    examples = _examples("README.md")
    assert len(examples) == 3
    assert _run(examples[index], data_dir) == "b'one book'\n"


def test_the_quick_start_never_reads_what_it_aborts(data_dir: Path) -> None:
    assert _run(_examples("docs/quickstart.md")[0], data_dir) == "b'one book'\n"
