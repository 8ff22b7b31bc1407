"""Jars for tests: copied from Maven once, kept outside of the source tree, in `~/.cache/eosin` or `EOSIN_CACHE`."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_PROJECTS = Path(__file__).parent / "java"
_FETCH_TIMEOUT_S = 300


class NotHere(Exception):
    """Something that a test needs is not on this machine; the text names it."""


def java(for_what: str) -> str:
    """The path of `java`. Raises NotHere."""
    found = shutil.which("java")
    if found is None:
        raise NotHere(f"java is not installed: {for_what} cannot run")
    return found


def cache() -> Path:
    """The folder for what is fetched once."""
    given = os.environ.get("EOSIN_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "eosin"


def version(project: str) -> str:
    """The release of Apache Kafka that a project below `java/` asks for."""
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", _pom(project).read_text())
    assert found is not None
    return found[1]


def jars(project: str) -> Path:
    """A folder with the jars that `java/<project>/pom.xml` lists, fetched if this is the first time. Raises NotHere."""
    folder = cache() / f"{project}-{version(project)}"
    if not folder.is_dir():
        _fetch(project, folder)
    return folder


def _pom(project: str) -> Path:
    return _PROJECTS / project / "pom.xml"


def _fetch(project: str, target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotHere(f"mvn is not installed: the jars of {project} cannot be fetched")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}/jars"]
        command: Sequence[str] = [maven, "--quiet", "--batch-mode", "--file", str(_pom(project)), *goal]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_TIMEOUT_S)
        if fetched.returncode:
            last = (fetched.stdout + fetched.stderr).strip().splitlines()[:1]
            raise NotHere(f"mvn could not fetch the jars of {project}: {' '.join(last)}")
        try:
            (Path(folder) / "jars").rename(target)
        except OSError:
            if not target.is_dir():  # else another test process was faster
                raise
