"""Eosin's image in a container engine, for tests that need one: EOSIN_ENGINE names it (`make docker-test` does).

The image is built without the compiler, since that takes minutes.
"""

import functools
import os
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest

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
