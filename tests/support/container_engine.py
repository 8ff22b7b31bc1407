"""Run the tests of the image and of the compose file with the container engine that is at hand.

    make docker-test                        # docker if it answers, else podman
    make docker-test EOSIN_ENGINE=podman    # that one
    make docker-test EOSIN_ENGINE=podman EOSIN_COMPOSE=~/venv/bin/podman-compose

The base image is pulled. Where none can be pulled, `docker/debian-base.sh` makes it of Debian's packages (as root).
What is missing is told in one sentence, with exit code 2.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from waiting import HANG_S

ROOT = Path(__file__).parent.parent.parent
FILES = [
    str(ROOT / "tests" / name)
    for name in ("test_docker_engine.py", "test_compose_files_in_containers.py", "test_testcontainers.py")
]
_ANSWERS_WITHIN_S = 30
_PULLED_WITHIN_S = 600
_MADE_WITHIN_S = 1800
_TESTED_WITHIN_S = 3600


class Missing(Exception):
    """Something that the tests need is not here; the text says what to do."""


def base_image() -> str:
    """The image that `docker/Dockerfile` builds on."""
    (named,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    return str(named)


def _runs(command: Sequence[str], within_s: int) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=within_s).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def engine(environment: Mapping[str, str]) -> list[str]:
    """The words of the engine that answers: the one that is named, else docker, else podman. Raises Missing."""
    named = shlex.split(environment.get("EOSIN_ENGINE", ""))
    candidates = [named] if named else [["docker"], ["podman"]]
    for candidate in candidates:
        if _runs([*candidate, "info"], _ANSWERS_WITHIN_S):
            return candidate
    tried = " and ".join(shlex.join(candidate) for candidate in candidates)
    raise Missing(f"no container engine answers ({tried} tried): start Docker or install podman")


def compose(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The command for compose files: the one that is named, else the one that goes with an engine, or nothing where
    there is none."""
    if named := shlex.split(environment.get("EOSIN_COMPOSE", "")):
        return named
    if _runs([*words, "compose", "version"], _ANSWERS_WITHIN_S):
        return [*words, "compose"]
    beside = shutil.which("podman-compose")
    return [beside] if beside and Path(words[0]).name == "podman" else []


def knows_profiles(words: Sequence[str]) -> bool:
    """True if a compose command can do what the tests ask of it; podman-compose can from 1.0.7 on."""
    told = subprocess.run([*words, "--help"], capture_output=True, text=True, check=False, timeout=HANG_S)
    return "--profile" in told.stdout


def _need_base(words: Sequence[str]) -> None:
    image = base_image()
    if _runs([*words, "image", "inspect", image], _ANSWERS_WITHIN_S) or _runs(
        [*words, "pull", image], _PULLED_WITHIN_S
    ):
        return
    print(f"{image} cannot be pulled: docker/debian-base.sh makes one of Debian's packages", flush=True)
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise Missing(f"{image} cannot be pulled, and making it of Debian's packages needs root and debootstrap")
    script = [str(ROOT / "docker" / "debian-base.sh"), *words]
    if subprocess.run(script, check=False, timeout=_MADE_WITHIN_S).returncode != 0:
        raise Missing(f"docker/debian-base.sh could not make {image}: its messages stand above")


def main() -> int:
    """Run the tests; returns their exit code, or 2 where something is missing."""
    try:
        words = engine(os.environ)
        _need_base(words)
    except Missing as missing:
        print(f"docker-test: {missing}", file=sys.stderr)
        return 2
    composing = compose(words, os.environ)
    if not composing:
        print("docker-test: the compose files are left out: neither a compose plugin nor podman-compose is here")
    elif not knows_profiles(composing):
        print(f"docker-test: the compose files are left out: {shlex.join(composing)} is too old to know --profile")
        composing = []
    sys.stdout.flush()
    # Podman's own format of images has no health checks.
    named = {"EOSIN_ENGINE": shlex.join(words), "EOSIN_COMPOSE": shlex.join(composing), "BUILDAH_FORMAT": "docker"}
    tests = [sys.executable, "-m", "pytest", "-q", "-rs", *FILES, *sys.argv[1:]]
    return subprocess.run(tests, check=False, env=os.environ | named, timeout=_TESTED_WITHIN_S).returncode


if __name__ == "__main__":
    sys.exit(main())
