"""Apache's Java client at several releases: the program of `tests/harnesses/java`, one process for each release.

Compiled once, against the oldest release that has what it calls; jars and classes are kept in the cache.
"""

import functools
import os
from pathlib import Path
from typing import Final

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


def _jars(release: str) -> Path:
    maven = toolchains.tool("mvn", f"the jars of kafka-clients {release}")
    pom = SOURCES / "pom.xml"

    def fetch(folder: Path) -> None:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", f"-Dkafka.version={release}"]
        command = [maven, "--quiet", "--batch-mode", "--file", str(pom), *goal]
        with toolchains.alone("maven"):  # its own cache is not made for two at once
            toolchains.fetch(command, f"kafka-clients {release}")

    return toolchains.made(f"kafka-clients-{release}", [pom, release], fetch)


def _classes() -> Path:
    javac = toolchains.tool("javac", "the harness of the Java client")
    sources = sorted(SOURCES.glob("*.java"))
    jars = _jars(OLDEST_HELPED)

    def compile_to(folder: Path) -> None:
        options = [
            "-Werror",
            "-Xlint:all,-options,-deprecation",
            "--release",
            "8",
            "-cp",
            f"{jars}/*",
            "-d",
            str(folder),
        ]
        toolchains.build([javac, *options, *map(str, sources)], "the harness of the Java client")

    return toolchains.made("java-harness", [OLDEST_HELPED, *sources], compile_to)


def command(release: str, *classes: Path) -> list[str]:
    """How Java is run with that release of the client, up to the name of the program. Raises `toolchains.NotHere`."""
    java = toolchains.tool("java", f"kafka-clients {release}")
    classpath = os.pathsep.join([*map(str, classes), f"{_jars(release)}/*"])
    return [java, *_SMALL, _WARNINGS_ONLY, "-cp", classpath]


def _harness(release: str) -> Command:
    return Command([*command(release, _classes()), "Harness"])


def _client(release: str) -> RemoteClient:
    name = f"java-{release}"
    return RemoteClient(name, Launched(name, functools.partial(_harness, release)))


CLIENT: Final = _client(NEWEST)
CLIENT_3: Final = _client(NEWEST_3)
CLIENT_2: Final = _client(NEWEST_2_7)
CLIENT_25: Final = _client(OLDEST_HELPED)
CLIENT_BELOW_25: Final = _client(NOT_HELPED)
CLIENTS: Final = (CLIENT, CLIENT_3, CLIENT_2, CLIENT_25, CLIENT_BELOW_25)
