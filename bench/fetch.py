"""Records written and read beside Apache Kafka: that part of `peers` alone, at durability `os`."""

import tempfile
from pathlib import Path

from bench import peers
from bench.contenders import apache_kafka, contenders
from bench.report import Row


def run(quick: bool = False) -> list[Row]:
    """All brokers up, asked in turns. Raises NotHere without java and, the first time, Maven."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with contenders(folder, "os", apache_kafka(folder)) as brokers:
            return peers.records(brokers, "os", (16 if quick else 128) * peers.MIB, 2 if quick else 9)
