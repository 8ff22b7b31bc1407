"""Foreign toolchains that tests need, and where what they make is kept: `~/.cache/eosin`, or `EOSIN_CACHE`.

What is missing on a machine is named; a test skips for it, and fails with CI=true. A program of ours that does not
compile is no missing toolchain: it fails everywhere.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

_FETCH_TIMEOUT_S = 300
_BUILD_TIMEOUT_S = 1800
_ATTEMPTS = 2


class NotHere(Exception):
    """Something that is needed is not on this machine; the text names it."""


@contextlib.contextmanager
def skipped_without() -> Iterator[None]:
    """Around what may raise NotHere: the test is skipped for it, or fails where CI says that everything is there."""
    try:
        yield
    except NotHere as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def cache() -> Path:
    """The folder for what is fetched or compiled once."""
    given = os.environ.get("EOSIN_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "eosin"


def tool(name: str, needed_for: str) -> str:
    """The path of a program. Raises NotHere."""
    found = shutil.which(name)
    if found is None:
        raise NotHere(f"{name} is not installed: it is needed for {needed_for}")
    return found


def made(name: str, sources: Iterable[Path | str], make: Callable[[Path], None]) -> Path:
    """The cached folder of what `make(empty folder)` makes of `sources` (files, or text such as a version): made
    again only when one of them has changed. Test processes that need it at the same time make it once."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes() if isinstance(source, Path) else source.encode())
        digest.update(b"\0")
    folder = cache() / f"{name}-{digest.hexdigest()[:16]}"
    with alone(folder.name):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
                work = Path(unfinished) / "made"
                work.mkdir()
                make(work)
                work.rename(folder)
    return folder


def fetch(command: Sequence[str], what: str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a download, once more if it fails. Raises NotHere: a machine may have no network."""
    for _ in range(_ATTEMPTS):
        fetched = _run(command, _FETCH_TIMEOUT_S, cwd, env)
        if fetched.returncode == 0:
            return
    last = (fetched.stdout + fetched.stderr).strip().splitlines()[:1]
    raise NotHere(f"{Path(command[0]).name} could not fetch {what}: {' '.join(last)}")


def build(command: Sequence[str], what: str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a compiler. A failure is a failure of the test."""
    built = _run(command, _BUILD_TIMEOUT_S, cwd, env)
    assert built.returncode == 0, f"{what} does not compile:\n{built.stdout}{built.stderr}"


def _run(
    command: Sequence[str], timeout_s: float, cwd: Path | None, env: Mapping[str, str] | None
) -> "subprocess.CompletedProcess[str]":
    everything = {**os.environ, **(env or {})}
    try:
        return subprocess.run(
            command, cwd=cwd, env=everything, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"nothing within {timeout_s:.0f} s")


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Only one thread of all test processes on this machine at a time."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
