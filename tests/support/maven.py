"""Jars for tests, copied from Maven once; `toolchains` says where they are kept and what is missing."""

import re
import tempfile
from pathlib import Path
from typing import Final

from kafka_releases import REFERENCE
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
    """The release of Apache Kafka that `java/<project>/pom.xml` asks for, or else the reference of all tests."""
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", _pom(project).read_text())
    return REFERENCE if found is None else found[1]


def jars(project: str, release: str | None = None) -> Path:
    """A folder with the jars that `java/<project>/pom.xml` lists, of a release of Apache Kafka or of `version`'s,
    fetched if this is the first time. Raises NotHere."""
    chosen, pom = release or version(project), _pom(project)

    def make(folder: Path) -> None:
        copy_jars(pom, folder, f"the jars of {project} {chosen}", f"-Dkafka.version={chosen}")

    return made(f"{project}-{chosen}", [pom], make)


def copy_jars(pom: Path, folder: Path, what: str, *settings: str) -> None:
    """Put what a pom lists into a folder; `settings` are `-Dname=value`. Raises NotHere."""
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", *settings]
    maven = tool("mvn", what)
    with alone("maven"):  # its own cache is not made for two at once
        fetch([maven, "--quiet", "--batch-mode", "--file", str(pom), *goal], what)


def _pom(project: str) -> Path:
    return _PROJECTS / project / "pom.xml"
