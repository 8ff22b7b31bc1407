"""Jars for tests, copied from Maven once; `toolchains` says where they are kept and what is missing."""

import re
from pathlib import Path
from typing import Final

from toolchains import NotHere, fetch, made, tool

__all__ = ["NotHere", "jars", "java", "version"]

_PROJECTS: Final = Path(__file__).parent / "java"


def java(for_what: str) -> str:
    """The path of `java`. Raises NotHere."""
    return tool("java", for_what)


def version(project: str) -> str:
    """The release of Apache Kafka that `java/<project>/pom.xml` asks for."""
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", _pom(project).read_text())
    assert found is not None
    return found[1]


def jars(project: str) -> Path:
    """A folder with the jars that `java/<project>/pom.xml` lists, fetched if this is the first time. Raises NotHere."""

    def make(folder: Path) -> None:
        maven = tool("mvn", f"the jars of {project}")
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        fetch([maven, "--quiet", "--batch-mode", "--file", str(_pom(project)), *goal], f"the jars of {project}")

    return made(f"{project}-{version(project)}", [_pom(project)], make)


def _pom(project: str) -> Path:
    return _PROJECTS / project / "pom.xml"
