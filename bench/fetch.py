"""Records written and read beside Apache Kafka: that part of `peers` alone, at durability `os`."""

import tempfile
from pathlib import Path

from broker_process import BrokerProcess

from bench import peers
from bench.report import Row


def run(quick: bool = False) -> list[Row]:
    """Both brokers up, asked in turns. Raises NotHere without java and, the first time, Maven."""
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data", durability="os") as ours,
        peers.apache_kafka(Path(folder)) as theirs,
    ):
        return peers.records((ours, theirs), "os", (16 if quick else 256) * peers.MIB, 2 if quick else 15)
