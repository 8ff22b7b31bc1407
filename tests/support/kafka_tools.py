"""Apache Kafka's own tools, run on files that Eosin wrote.

The jars come from Maven once and are kept outside of the source tree, in `~/.cache/eosin` or `EOSIN_CACHE`.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

POM = Path(__file__).parent / "java" / "kafka-tools" / "pom.xml"
DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"
_FETCH_TIMEOUT_S = 300
_RUN_TIMEOUT_S = 60


class NotHere(Exception):
    """Something that the tools need is not on this machine; the text names it."""


class KafkaTools:
    """The tools, ready to run."""

    def __init__(self, java: str, jars: Path) -> None:
        self._java = java
        self._jars = jars

    @classmethod
    def find(cls) -> "KafkaTools":
        """The tools, fetched if this is the first time. Raises NotHere."""
        java = shutil.which("java")
        if java is None:
            raise NotHere("java is not installed: Apache Kafka's tools cannot run")
        jars = _cache() / f"kafka-tools-{_version()}"
        if not jars.is_dir():
            _fetch(jars)
        return cls(java, jars)

    def dump(self, files: Iterable[Path], *options: str) -> "subprocess.CompletedProcess[str]":
        """One run of DumpLogSegments over many files."""
        listed = ",".join(map(str, files))
        return self.run(DUMP_LOG_SEGMENTS, *options, "--files", listed)

    def run(self, tool: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """One run of a tool."""
        quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
        return subprocess.run(
            [self._java, *quick, "-cp", f"{self._jars}/*", tool, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUN_TIMEOUT_S,
        )


def _cache() -> Path:
    given = os.environ.get("EOSIN_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "eosin"


def _version() -> str:
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", POM.read_text())
    assert found is not None
    return found[1]


def _fetch(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotHere("mvn is not installed: Apache Kafka's tools cannot be fetched")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent) as folder:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}/jars"]
        command: Sequence[str] = [maven, "--quiet", "--batch-mode", "--file", str(POM), *goal]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_TIMEOUT_S)
        if fetched.returncode:
            last = (fetched.stdout + fetched.stderr).strip().splitlines()[:1]
            raise NotHere(f"mvn could not fetch Apache Kafka's tools: {' '.join(last)}")
        try:
            (Path(folder) / "jars").rename(jars)
        except OSError:
            if not jars.is_dir():  # else another test process was faster
                raise
