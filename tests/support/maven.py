"""Jars for tests, copied from Maven once; `toolchains` says where they are kept and what is missing."""

import re
import tempfile
from pathlib import Path
from typing import Final

from toolchains import NotHere, alone, fetch, made, tool

__all__ = ["NotHere", "copy_jars", "jars", "java", "temporary", "version"]

_PROJECTS: Final = Path(__file__).parent / "java"


def java(for_what: str) -> str:
    """The path of `java`. Raises NotHere."""
    return tool("java", for_what)


def temporary(folder: Path | None = None) -> str:
    """The option for Java, which does not ask TMPDIR. What is killed wants a folder of its own: it leaves native
    libraries there."""
    return f"-Djava.io.tmpdir={folder or tempfile.gettempdir()}"


def version(project: str) -> str:
    """The release of Apache Kafka that `java/<project>/pom.xml` asks for."""
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", _pom(project).read_text())
    assert found is not None
    return found[1]


def jars(project: str) -> Path:
    """A folder with the jars that `java/<project>/pom.xml` lists, fetched if this is the first time. Raises NotHere."""

    what = f"the jars of {project}"
    return made(f"{project}-{version(project)}", [_pom(project)], lambda folder: copy_jars(_pom(project), folder, what))


def copy_jars(pom: Path, folder: Path, what: str, *settings: str) -> None:
    """Put what a pom lists into a folder; `settings` are `-Dname=value`. Raises NotHere."""
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", *settings]
    maven = tool("mvn", what)
    with alone("maven"):  # its own cache is not made for two at once
        fetch([maven, "--quiet", "--batch-mode", "--file", str(pom), *goal], what)


def _pom(project: str) -> Path:
    return _PROJECTS / project / "pom.xml"
