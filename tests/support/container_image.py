"""Eosin's image in a container engine, for tests that need one: EOSIN_ENGINE names it (`make docker-test` does).

The image is built without the compiler, since that takes minutes.
"""

import contextlib
import functools
import os
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from waiting import wait_until

ROOT: Final = Path(__file__).parent.parent.parent
ENGINE: Final = shlex.split(os.environ.get("EOSIN_ENGINE", ""))
NEEDS_ENGINE: Final = pytest.mark.skipif(not ENGINE, reason="no container engine is named (EOSIN_ENGINE=podman)")
_ENDS_WITHIN_S: Final = 500


def engine(*words: str, expect: int | None = 0) -> "subprocess.CompletedProcess[str]":
    """One command of the engine; the exit code may be any where None is expected."""
    ran = subprocess.run([*ENGINE, *words], capture_output=True, text=True, check=False, timeout=_ENDS_WITHIN_S)
    assert expect is None or ran.returncode == expect, f"{words}: {ran.stdout[-5000:]}{ran.stderr[-5000:]}"
    return ran


@functools.cache
def is_podman() -> bool:
    """True if the engine is podman, whatever it is called."""
    return "podman" in engine("version").stdout.lower()


@functools.cache
def built(target: str) -> str:
    """The name of the image of that target, which is built."""
    # Podman's own format of images has no health checks.
    form = ["--format", "docker"] if is_podman() else []
    words = ["--build-arg", "COMPILE=0", "--file", str(ROOT / "docker" / "Dockerfile"), "--target", target]
    engine("build", *form, *words, "--tag", f"eosin-test-{target}", str(ROOT))
    return f"eosin-test-{target}"


def kafkas_stand_in(tag: str = "9.0.0") -> str:
    """The image of the broker, by a name that tools take for Kafka's."""
    name = f"eosin-kafka:{tag}"
    engine("tag", built("broker"), name)
    # Podman calls what was built here so; other names it would have to search for.
    return f"localhost/{name}" if is_podman() else name


@contextlib.contextmanager
def running(*words: str) -> Iterator[str]:
    """A container that is started with these options, image and command; its name. At the end it is removed, with
    volumes of its own."""
    name = f"eosin-test-{uuid.uuid4().hex[:8]}"
    try:
        engine("run", "--detach", "--name", name, *words)
        yield name
    finally:
        engine("rm", "--force", "--volumes", name, expect=None)


@contextlib.contextmanager
def network() -> Iterator[str]:
    """A network of containers, where each is found by its names; its own name."""
    name = f"eosin-test-{uuid.uuid4().hex[:8]}"
    engine("network", "create", name)
    try:
        yield name
    finally:
        engine("network", "rm", "--force", name, expect=None)


def wait_until_ready(container: str) -> None:
    """Wait until the health check of the image passes in it. Fails if it ends before."""

    def is_ready() -> bool:
        if engine("exec", container, "eosin", "health", expect=None).returncode == 0:
            return True
        state = engine("inspect", "--format", "{{.State.Running}}", container).stdout.strip()
        assert state == "true", log_of(container)
        return False

    wait_until(is_ready, lambda: log_of(container), every_s=0.2)


def log_of(container: str) -> str:
    """All that it has said."""
    said = engine("logs", container)
    return said.stdout + said.stderr
