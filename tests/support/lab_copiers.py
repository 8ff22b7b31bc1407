"""The copiers of `tests/lab/copiers` by the names of their clients: correct applications for `eosin lab run`."""

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from real_clients import franz_go, java, kafkajs

from eosin.runtime.version import VERSION

SOURCES: Final = Path(__file__).resolve().parents[1] / "lab" / "copiers"


@dataclass(frozen=True, slots=True)
class LabCopier:
    """A copier that is written with one release of a client."""

    title: str
    """The client and its release."""
    command: Callable[[], list[str]]
    """Makes the command, and compiles what it needs. Raises `toolchains.NotHere` for a toolchain that is missing."""
    partitions: int = 2
    """Of its input: as many as it reads."""


def _python(package: str, name: str) -> LabCopier:
    return LabCopier(f"{package} {version(package)}", lambda: [sys.executable, str(SOURCES / f"{name}.py")])


def _java(release: str) -> LabCopier:
    return LabCopier(f"Java {release}", functools.partial(_java_command, release))


def _java_command(release: str) -> list[str]:
    compiled = java.classes(SOURCES / "java", java.OLDEST_HELPED, jars_of=java.SOURCES)
    return [*java.command(compiled, java.client_jars(release)), "LabCopier"]


def _franz_go() -> list[str]:
    return [str(franz_go.compiled("franz-go-copier", sorted((SOURCES / "franz_go").glob("*.go"))))]


def _kafkajs() -> list[str]:
    packages = kafkajs.installed() / "node_modules"
    return ["env", f"NODE_PATH={packages}", kafkajs.node(), str(SOURCES / "kafkajs" / "copier.js")]


COPIERS: Final[Mapping[str, LabCopier]] = {
    "confluent-kafka": _python("confluent-kafka", "confluent"),
    "kafka-python": _python("kafka-python", "kafka_python"),
    "aiokafka": _python("aiokafka", "aio"),
    "java-4": _java(java.NEWEST),
    "java-3": _java(java.NEWEST_3),
    "java-2.7": _java(java.NEWEST_2_7),
    "java-2.5": _java(java.OLDEST_HELPED),
    "franz-go": LabCopier(f"franz-go {franz_go.version()}", _franz_go),
    "kafkajs": LabCopier(f"kafkajs {kafkajs.version()}", _kafkajs),
    "eosin": LabCopier(f"Eosin's own {VERSION}", lambda: [sys.executable, str(SOURCES / "own.py")], partitions=1),
}
"""By name, in the order of docs/clients.md; Eosin's own client is no member of a group."""
