"""The protocol of the sinks against Apache Kafka (A2): each request, or its answer, is lost on the client's side."""

from dataclasses import replace
from itertools import count, product
from typing import Any

import pytest
from pipeline_job import Job, rows, run_until_done

from eosin.client.client import Client
from eosin.client.errors import ConnectionFailed
from eosin.client.producer import TV1, TV2
from eosin.pipeline.format.batch_commits import StreamCommits, TaskOutput, commit_once
from eosin.pipeline.format.task_rows import packed
from eosin.pipeline.format.write_options import WriteOptions
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.compression import Compression

pytestmark = [pytest.mark.process, pytest.mark.slow]

WRITING = {ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN}


@pytest.fixture(scope="module")
def bootstrap(apache_kafka: str) -> str:
    """Where Apache Kafka answers."""
    return apache_kafka


class Losses:
    """Counts what drivers ask of the transaction, and loses one request or answer; a driver may die of it."""

    def __init__(self, number: int, *, answer: bool, dies: bool) -> None:
        self.asked: list[ApiKey] = []
        self._number = number
        self._answer = answer
        self._dies = dies

    def attach(self, client: Client) -> None:
        ask = client.request

        async def request(key: ApiKey, *arguments: Any, **how: Any) -> Any:
            if key not in WRITING:
                return await ask(key, *arguments, **how)
            self.asked.append(key)
            lost = len(self.asked) - 1 == self._number
            answer = None if lost and not self._answer else await ask(key, *arguments, **how)
            if lost:
                client._closed = self._dies
                raise ConnectionFailed("lost")
            return answer

        client.request = request  # type: ignore[method-assign]


SHORT = {(TV1, False, True), (TV2, True, False)}
"""What `make test` tries: each value once. The other combinations are left to `make gate`."""


@pytest.mark.parametrize(
    ("version", "answer", "dies"),
    [
        pytest.param(
            version,
            answer,
            dies,
            id=f"TV{version}-{'answer' if answer else 'request'}-{'dies' if dies else 'goes on'}",
            marks=() if (version, answer, dies) in SHORT else pytest.mark.full,
        )
        for version, answer, dies in product((TV1, TV2), (False, True), (False, True))
    ],
)
async def test_each_batch_is_written_once_on_apache_kafka_whatever_is_lost(
    bootstrap: str, version: int, answer: bool, dies: bool
) -> None:
    for number in count():
        job = await Job(bootstrap, version).create()
        losses = Losses(number, answer=answer, dies=dies)
        drivers = await run_until_done(job, 2, losses.attach)
        assert await job.settled() == rows(0, 1), f"request {number}: {losses.asked[-1].name}"
        if len(losses.asked) <= number:
            break  # there was no such request: every one has been lost once
        assert drivers == 1 + dies
    assert number > 6


async def test_processes_that_take_turns_commit_each_batch_once_on_apache_kafka(bootstrap: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    job = await Job(bootstrap).create()
    options = WriteOptions(bootstrap, topic=job.name, pipeline=job.name, compression=Compression.LZ4)

    def outputs(batch: int) -> list[TaskOutput]:
        values = [pyarrow.RecordBatch.from_pydict({"value": [f"{batch}.{row}"]}) for row in range(2)]
        return [TaskOutput("q", *packed([each], ["value"])) for each in values]

    first, second = StreamCommits(options), StreamCommits(options)
    for batch, process in enumerate((first, second, second, first)):
        assert await process.commit(outputs(batch), batch)
        assert not await process.commit(outputs(batch), batch), "Spark may not have noted it"
    await first.close()
    await second.close()
    await commit_once(replace(options, pipeline=None), outputs(4))
    assert await job.settled() == rows(*range(5))
