"""Apache Kafka's own tools, run on files that Eosin wrote: all in one process, since a JVM is slow to start."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from real_clients import tools
from real_clients.harness import Harness
from real_clients.tools import Ran

DUMP_LOG_SEGMENTS: Final = "kafka.tools.DumpLogSegments"


class KafkaTools:
    """The tools, ready to run."""

    def __init__(self, process: Harness) -> None:
        self._process = process

    @classmethod
    def find(cls) -> "KafkaTools":
        """The tools, fetched if this is the first time. Raises maven.NotHere."""
        return cls(tools.LAUNCHED.get())

    def dump(self, files: Iterable[Path], *options: str) -> Ran:
        """One run of DumpLogSegments over many files."""
        listed = ",".join(map(str, files))
        return self.run(DUMP_LOG_SEGMENTS, *options, "--files", listed)

    def run(self, tool: str, *arguments: str) -> Ran:
        """One run of a tool."""
        return tools.ran(self._process, tool, arguments)
