"""Apache's Java client at several releases: the program of `tests/harnesses/java`, one process for each release.

Compiled once, against the oldest release that has what it calls; jars and classes are kept in the cache.
"""

import functools
import os
from pathlib import Path
from typing import Final

import maven
import toolchains

from real_clients.harness import Command, Launched
from real_clients.remote import RemoteClient

SOURCES: Final = Path(__file__).resolve().parents[2] / "harnesses" / "java"
NEWEST: Final = "4.4.0"
NEWEST_3: Final = "3.9.2"
NEWEST_2_7: Final = "2.7.2"
"""The first that aborts and goes on when a record had an old epoch."""
OLDEST_HELPED: Final = "2.5.1"
"""Also what the program is compiled against."""
NOT_HELPED: Final = "2.4.1"
"""It cannot ask for a new epoch."""
_SMALL: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_WARNINGS_ONLY: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def jars(project: Path, release: str) -> Path:
    """The jars of a project's pom at a release of Apache Kafka. Raises `toolchains.NotHere`."""
    pom, what = project / "pom.xml", f"the jars of the {project.name} harness at {release}"

    def fetch(folder: Path) -> None:
        maven.copy_jars(pom, folder, what, f"-Dkafka.version={release}")

    return toolchains.made(f"{project.name}-jars-{release}", [pom, release], fetch)


def classes(project: Path, release: str, *, runs_on: int = 8, jars_of: Path | None = None) -> Path:
    """A project's classes, compiled against a release, for the Java that it runs on; `jars_of` is another project that
    has the pom. Raises `toolchains.NotHere`."""
    javac = toolchains.tool("javac", f"the program of {project.name}")
    sources, jars_ = sorted(project.glob("*.java")), jars(jars_of or project, release)

    def compile_to(folder: Path) -> None:
        lint = "-Xlint:all,-options,-deprecation,-path" + (",-processing,-classfile" if runs_on > 8 else "")
        options = ["-Werror", lint, "--release", str(runs_on), "-cp", f"{jars_}/*"]
        toolchains.build([javac, *options, "-d", str(folder), *map(str, sources)], f"the program of {project.name}")

    return toolchains.made(f"{project.name}-classes", [release, *sources], compile_to)


def command(*classpath: Path | str, folder: Path | None = None) -> list[str]:
    """The command that runs Java, up to the name of the program; `folder` is for its temporary files. Raises
    `toolchains.NotHere`."""
    java = toolchains.tool("java", "Java clients")
    options = (*_SMALL, _WARNINGS_ONLY, maven.temporary(folder))
    return [java, *options, "-cp", os.pathsep.join(map(str, classpath))]


def client_jars(release: str) -> str:
    """A release of the client, as the class path names it. Raises `toolchains.NotHere`."""
    return f"{jars(SOURCES, release)}/*"


def _harness(release: str) -> Command:
    return Command([*command(classes(SOURCES, OLDEST_HELPED), client_jars(release)), "Harness"])


def _client(release: str) -> RemoteClient:
    name = f"java-{release}"
    return RemoteClient(name, Launched(name, functools.partial(_harness, release)))


CLIENT: Final = _client(NEWEST)
CLIENT_3: Final = _client(NEWEST_3)
CLIENT_2: Final = _client(NEWEST_2_7)
CLIENT_25: Final = _client(OLDEST_HELPED)
CLIENT_BELOW_25: Final = _client(NOT_HELPED)
CLIENTS: Final = (CLIENT, CLIENT_3, CLIENT_2, CLIENT_25, CLIENT_BELOW_25)
