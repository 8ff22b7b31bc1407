"""Apache Kafka's command line tools from their published jar: many runs in one process, since a JVM is slow to start.

The program of `tests/harnesses/tools` calls the main methods that the scripts of a release call. What has to end its
process, or to be killed, runs in one of its own.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import maven
import toolchains
from waiting import HANG_S

from real_clients import java
from real_clients.harness import Command, Harness, Launched

SOURCES: Final = java.SOURCES.parent / "tools"
PROJECT: Final = "kafka-tools"
SCRIPTS: Final[Mapping[str, str]] = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
"""The program with which Apache Kafka's own system tests copy topics exactly once."""
_SMALL: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def release() -> str:
    """The release of Apache Kafka that the tools are of."""
    return maven.version(PROJECT)


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of one run of a tool."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines that it printed, without empty ones."""
        return [line for line in self.out.splitlines() if line.strip()]

    @property
    def table(self) -> list[dict[str, str]]:
        """The table that it printed, by the titles of its columns."""
        titles, *rows = (line.split() for line in self.lines)
        return [dict(zip(titles, row, strict=False)) for row in rows]


def command(project: str = PROJECT) -> list[str]:
    """The command that runs Java with the tools of a project of `java/` and our program, up to the name of a class.
    Raises `toolchains.NotHere`."""
    virtual_machine, jars = maven.java("Apache Kafka's tools"), maven.jars(project)
    options = (*_SMALL, "-Dlog4j2.level=WARN", maven.temporary())
    return [virtual_machine, *options, "-cp", f"{_classes(maven.version(project), jars)}:{jars}/*"]


def launched(project: str) -> Launched:
    """The one process for the tools of that project."""
    return Launched(f"tools of {project}", lambda: Command([*command(project), "Tools"]))


def ran(process: Harness, tool: str, arguments: Sequence[str], given: str = "") -> Ran:
    """One run of a tool, by its class, in such a process, with `given` as its stdin."""
    answer = process.call("tool.run", "tools", {"tool": tool, "arguments": arguments, "input": given})
    return Ran(answer["code"], answer["out"], answer["err"])


def _classes(release: str, jars: Path) -> Path:
    compiler, sources = toolchains.tool("javac", "the program of tools"), sorted(SOURCES.glob("*.java"))

    def compile_to(folder: Path) -> None:
        options = ["-Werror", "-Xlint:all,-options,-path,-processing,-classfile", "-cp", f"{jars}/*"]
        toolchains.build([compiler, *options, "-d", str(folder), *map(str, sources)], "the program of tools")

    return toolchains.made("tools-classes", [release, *sources], compile_to)


class KafkaScripts:
    """The tools against one broker."""

    def __init__(self, bootstrap: str, process: Launched | None = None) -> None:
        """`process` has the tools of another release. Raises `toolchains.NotHere`."""
        self.bootstrap = bootstrap
        self._process = (process or LAUNCHED).get()

    def run(self, script: str, *arguments: str, given: str = "", code: int = 0) -> Ran:
        """One run, with `given` as its stdin. Fails unless it ends with `code`."""
        all_of_it = ("--bootstrap-server", self.bootstrap, *arguments)
        done = ran(self._process, SCRIPTS[script], all_of_it, given)
        assert done.code == code, f"{script} {' '.join(arguments)} ended with {done.code}:\n{done.out}{done.err}"
        return done

    def alone(self, script: str, *arguments: str) -> Ran:
        """One run in a process of its own, for a tool that reports when that ends. Fails unless it ends with 0."""
        all_of_it = [*command(), SCRIPTS[script], "--bootstrap-server", self.bootstrap, *arguments]
        done = subprocess.run(all_of_it, capture_output=True, text=True, timeout=HANG_S, check=False)
        assert done.returncode == 0, f"{script} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return Ran(done.returncode, done.stdout, done.stderr)


LAUNCHED: Final = launched(PROJECT)
OF_REFERENCE: Final = launched("apache-kafka")
"""The tools of the release that all tests compare with."""
