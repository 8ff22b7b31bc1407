"""Try each wheel of a folder as somebody who has just installed it: in an environment and a folder of its own, by its
commands alone.

    python tests/support/tried_wheel.py dist        # what `make dist` does for each of its interpreters

Only the standard library is imported here, since the interpreter that tries has nothing else.
"""

import os
import re
import subprocess
import sys
import tempfile
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 100 * 1000 * 1000
"""Of everything that `pip install eosin` brings along."""
_INSTALLED_WITHIN_S: Final = 600
_DONE_WITHIN_S: Final = 120


class NotUsable(Exception):
    """A wheel does not do what its users are told."""


def fitting(folder: Path) -> list[Path]:
    """The wheels that this interpreter can install: the plain one, and the compiled one that was made for it."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = sorted(folder.glob("eosin-*-py3-none-any.whl")) + sorted(folder.glob(f"eosin-*-{tag}-*.whl"))
    if not found:
        raise NotUsable(f"{folder} has no wheel for {tag}: run `make dist`")
    return found


def tried(wheel: Path, home: Path) -> str:
    """Install `wheel` into an empty environment in `home`, and use it. Returns what was seen, in a line. Raises
    NotUsable."""
    venv.create(home / "env", with_pip=True)
    commands = home / "env" / "bin"
    before = _bytes_of(home / "env")
    _run(home, commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel.resolve())
    brought = _bytes_of(home / "env") - before
    if brought > MOST_BYTES:
        raise NotUsable(f"{wheel.name} brings along {brought // 1_000_000} MB, and may {MOST_BYTES // 1_000_000}")
    eosin = commands / "eosin"
    version = _run(home, eosin, "--version").strip()
    if ("compiled" in version) == wheel.name.endswith("-none-any.whl"):
        raise NotUsable(f"{wheel.name} says that it is {version}")
    with _broker(home, eosin) as (address, http):
        _run(
            home,
            eosin,
            "produce",
            "books",
            "--create",
            "--transactional-id",
            "book-writer",
            "--bootstrap-server",
            address,
            text="one\n",
        )
        read = _run(home, eosin, "consume", "books", "--bootstrap-server", address).split()
        if "one" not in read:
            raise NotUsable(f"{wheel.name}: a committed record is not read: {read}")
        told = _run(home, eosin, "explain", "book-writer", "--bootstrap-server", address, "--http", http)
        if "book-writer" not in told:
            raise NotUsable(f"{wheel.name}: eosin explain says {told!r}")
        for path in ("readyz", "metrics", ""):
            with urllib.request.urlopen(f"http://{http}/{path}", timeout=_DONE_WITHIN_S) as response:
                if response.status != 200:
                    raise NotUsable(f"{wheel.name}: /{path} answers {response.status}")
    _try_testing(home, eosin)
    _try_plugin(home, commands / "python")
    return (
        f"{wheel.name}: {version}, {brought // 1_000_000} MB installed; a transaction, explain, console, eosin testing,"
        " the plugin: good"
    )


def _try_testing(home: Path, eosin: Path) -> None:
    """Write to a broker for tests of any language, which ends with standard input. Raises NotUsable."""
    command = [str(eosin), "testing", "--topics", "orders", "--ready-line", "--until-stdin-ends"]
    with subprocess.Popen(
        command, cwd=home, env=_environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if re.fullmatch(r"127\.0\.0\.1:\d+", address) is None:
                raise NotUsable(f"eosin testing says {address!r}")
            _run(home, eosin, "produce", "orders", "--bootstrap-server", address, text="two\n")
            read = _run(home, eosin, "consume", "orders", "--bootstrap-server", address).split()
            if "two" not in read:
                raise NotUsable(f"eosin testing: a record is not read: {read}")
        finally:
            process.stdin.close()
            process.wait(_DONE_WITHIN_S)
    if process.returncode:
        raise NotUsable(f"eosin testing ends with {process.returncode}")


_SUITE: Final = """
import pytest

@pytest.mark.eosin(topics=["orders"])
def test_a_committed_record_is_read(eosin):
    eosin.produce("orders", "one", transactional_id="order-writer")
    assert eosin.topic("orders").values() == [b"one"]
    assert eosin.transactions("order-writer").outcomes == ["commit"]

def test_another_broker_has_nothing_of_it(eosin):
    assert eosin.topics() == []
"""


def _try_plugin(home: Path, python: Path) -> None:
    """Run a suite with fixtures of pytest, which Eosin does not bring along, and with nothing else that they may want.
    Raises NotUsable."""
    _run(home, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pytest")
    suite = home / "suite"
    suite.mkdir()
    (suite / "test_orders.py").write_text(_SUITE)
    told = _run(home, python, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", suite)
    if "2 passed" not in told:
        raise NotUsable(f"the plugin of pytest: {told}")


@contextmanager
def _broker(home: Path, eosin: Path) -> Iterator[tuple[str, str]]:
    """A broker with a console, until the end: where clients and browsers reach it."""
    command = [eosin, "serve", "--listen", "127.0.0.1:0", "--console", "--http", "0", "--data-dir", home / "data"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [str(each) for each in command], cwd=home, env=_environment(), text=True, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        found = re.search(r" ready on (\S+) .*\bhttp (\S+)\)", ready)
        if found is None:
            raise NotUsable(f"eosin serve says {ready!r}")
        yield found[1], found[2]
    finally:
        process.terminate()
        if process.wait(_DONE_WITHIN_S):
            raise NotUsable(f"eosin serve ends with {process.returncode}: {(home / 'log').read_text()}")


def _run(home: Path, *command: object, text: str = "") -> str:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=home,
        env=_environment(),
        input=text,
        capture_output=True,
        text=True,
        timeout=_INSTALLED_WITHIN_S,
    )
    if done.returncode:
        raise NotUsable(f"{' '.join(map(str, command[1:]))} ends with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _environment() -> dict[str, str]:
    """That of a user: nothing leads to the checkout."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EOSIN", "VIRTUAL_ENV"))
    }


def _bytes_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main(folder: Path) -> int:
    """Try every fitting wheel; 1 if one is not usable."""
    for wheel in fitting(folder):
        with tempfile.TemporaryDirectory() as home:
            try:
                print(tried(wheel, Path(home)))
            except NotUsable as error:
                print(f"{error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
