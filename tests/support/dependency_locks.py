"""Write `docker/locks`: every package of the images and of the extras for brokers, by version and hash.

    make lock        # the newest versions that pyproject.toml allows; review the diff

Each lock holds for every Python and system that Eosin runs on. Its second line has what it was asked for, so that
`tests/test_locks.py` sees without a network that pyproject.toml has changed since.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import setuptools.build_meta

ROOT: Final = Path(__file__).parent.parent.parent
LOCKS: Final = ROOT / "docker" / "locks"
EXTRAS_OF_BROKERS: Final = ("oauth", "otel")
_OLDEST_PYTHON: Final = "3.11"
_RESOLVED_WITHIN_S: Final = 300
_ASKED: Final = "# Of: "


def wanted() -> dict[str, list[str]]:
    """The requirements of each lock, by its name."""
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    needed: list[str] = project["dependencies"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    (client,) = (each for each in extras["test"] if each.startswith("confluent-kafka"))
    return {
        "build": sorted({*settings["build-system"]["requires"], *_needed_to_compile()}),
        "broker": sorted(needed),
        "extras": sorted([*needed, *(each for name in EXTRAS_OF_BROKERS for each in extras[name])]),
        "smoke": [client],
    }


def _needed_to_compile() -> list[str]:
    """The packages that setup.py makes pip install before it compiles a wheel."""
    before, arguments = Path.cwd(), sys.argv
    compiled = os.environ.get("EOSIN_COMPILE")
    os.environ["EOSIN_COMPILE"] = "1"
    ask: Callable[[], list[str]] = setuptools.build_meta.get_requires_for_build_wheel
    try:
        os.chdir(ROOT)
        return ask()
    finally:
        os.chdir(before)
        sys.argv = arguments
        if compiled is None:
            del os.environ["EOSIN_COMPILE"]
        else:
            os.environ["EOSIN_COMPILE"] = compiled


def asked(text: str) -> list[str]:
    """The requirements that a lock was made of."""
    line = text.splitlines()[1]
    return line.removeprefix(_ASKED).split("; also ") if line.startswith(_ASKED) else []


def main(uv: str) -> int:
    """Write every lock with the tool at that path; returns the exit code."""
    LOCKS.mkdir(exist_ok=True)
    for name, requirements in wanted().items():
        with tempfile.NamedTemporaryFile("w", suffix=".in") as file:
            file.write("\n".join(requirements))
            file.flush()
            command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", _OLDEST_PYTHON, "--upgrade"]
            command += ["--generate-hashes", "--no-annotate", "--no-header", "--no-config", file.name]
            # What a machine has beside the index is not what everybody else gets.
            clean = {each: value for each, value in os.environ.items() if not each.startswith(("PIP_", "UV_"))}
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_RESOLVED_WITHIN_S, env=clean
            )
        if ran.returncode != 0:
            print(f"lock: no versions for {name} could be found: {ran.stderr.strip()}", file=sys.stderr)
            return 2
        head = "# `make lock` writes this file; pip installs it with --require-hashes."
        asked_for = "; also ".join(requirements)
        (LOCKS / f"{name}.txt").write_text(f"{head}\n{_ASKED}{asked_for}\n{ran.stdout}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
