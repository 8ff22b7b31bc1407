"""A runner as a program of its own, to be killed: numbers of a topic into another, doubled.

    python tests/support/runner_program.py BOOTSTRAP

Prints the records in and out of each transaction, and goes on until it is killed.
"""

import asyncio
import sys
from collections.abc import Iterable

from eosin.client.consumer import ConsumedRecord
from eosin.pipeline.runner.runner import CommitReport, Output, Runner

INPUT = "numbers"
OUTPUT = "doubled"
APPLICATION = "doubler"


def doubled(consumed: ConsumedRecord) -> Iterable[Output]:
    number = int(consumed.record.value or b"0")
    source = f"{consumed.partition}:{consumed.record.offset}".encode()
    yield Output(OUTPUT, str(2 * number).encode(), key=consumed.record.key, headers=(("src", source),))


async def main(bootstrap: str) -> None:
    def told(report: CommitReport) -> None:
        print(report.records_in, report.records_out, flush=True)

    settings = {"commit.interval.ms": "0"}
    await Runner(bootstrap, APPLICATION, [INPUT], doubled, outputs={OUTPUT: 3}, settings=settings, on_commit=told).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
