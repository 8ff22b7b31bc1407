"""Celery with Kafka as its broker: workers take each task once, and one goes on where another has stopped."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from toolchains import fetch, made, skipped_without
from waiting import HANG_S

SOURCES = Path(__file__).parents[1] / "harnesses" / "celery"


def installed() -> Path:
    """The folder with Celery. Raises NotHere."""
    wanted = SOURCES / "requirements.txt"

    def install_into(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "-r", str(wanted)]
        fetch(pip, "Celery")

    return made("celery", [wanted], install_into)


@pytest.fixture
def environment(bootstrap: str, tmp_path: Path) -> Mapping[str, str]:
    with skipped_without():
        packages = installed()
    return {
        **os.environ,
        "PYTHONPATH": f"{packages}:{SOURCES}",
        "CELERY_BROKER": f"confluentkafka://{bootstrap}",
        "CELERY_RESULTS": f"file://{tmp_path}",
    }


@contextmanager
def worker(environment: Mapping[str, str], log: Path) -> Iterator[None]:
    """One that is asked to stop in the end, and does so."""
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "solo", "--loglevel", "INFO"]
    with log.open("w") as said:
        running = subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.STDOUT, cwd=log.parent)
        try:
            yield
            running.terminate()
            assert running.wait(HANG_S) == 0, log.read_text()
        finally:
            running.kill()
            running.wait(HANG_S)


def ask(environment: Mapping[str, str], first: int, end: int) -> list[int]:
    """What workers make of the numbers."""
    command = [sys.executable, str(SOURCES / "ask.py"), str(first), str(end)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_celery_s_workers_take_each_task_once_and_go_on_where_another_has_stopped(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    logs = [tmp_path / f"worker-{number}.log" for number in range(2)]
    for number, log in enumerate(logs):
        with worker(environment, log):
            assert ask(environment, number * 20, number * 20 + 20) == [
                2 * each for each in range(number * 20, number * 20 + 20)
            ]
    assert [log.read_text().count(" succeeded in ") for log in logs] == [20, 20]
