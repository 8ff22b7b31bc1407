"""Apache Kafka's own tools, run on files that Eosin wrote."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import maven
from waiting import HANG_S

DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"


class KafkaTools:
    """The tools, ready to run."""

    def __init__(self, java: str, jars: Path) -> None:
        self._java = java
        self._jars = jars

    @classmethod
    def find(cls) -> "KafkaTools":
        """The tools, fetched if this is the first time. Raises maven.NotHere."""
        java = maven.java("Apache Kafka's tools")
        return cls(java, maven.jars("kafka-tools"))

    def dump(self, files: Iterable[Path], *options: str) -> "subprocess.CompletedProcess[str]":
        """One run of DumpLogSegments over many files."""
        listed = ",".join(map(str, files))
        return self.run(DUMP_LOG_SEGMENTS, *options, "--files", listed)

    def run(self, tool: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """One run of a tool."""
        quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", maven.temporary())
        return subprocess.run(
            [self._java, *quick, "-cp", f"{self._jars}/*", tool, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_S,
        )
