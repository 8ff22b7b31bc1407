"""The records that the transform of a runner produces.

Always true: an `Output` that a broker would not accept is refused where it is made; and an error of a transform, or a
result that is not an `Output`, is raised with a note that names the input record.
"""

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eosin.client.consumer import ConsumedRecord
from eosin.client.errors import BrokerError
from eosin.pipeline.common.errors import BadRows
from eosin.pipeline.common.partitioning import check_places
from eosin.pipeline.sink.rows import Headers, Rows, size_of
from eosin.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Output:
    """A record to write. Without a partition, the hash of its key decides, as in Kafka's Java client."""

    topic: str
    value: bytes | None
    """None is a tombstone."""
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp: int | None = None
    """ms since 1970; None is the time of writing."""

    def __post_init__(self) -> None:
        """Raises BadRows here, so that the traceback shows where the output was made."""
        named = {"key": self.key, "value": self.value, **{f"header {name!r}": value for name, value in self.headers}}
        for what, given in named.items():
            if given is not None and not isinstance(given, bytes):
                kind = type(given).__name__
                raise BadRows(f"the {what} of an output for topic {self.topic} is {kind}, and must be bytes or None")


Transform = Callable[[ConsumedRecord], Iterable[Output] | AsyncIterable[Output] | Awaitable[Iterable[Output]]]
"""From one input record to its outputs. Called again for the same record after a failure."""


@dataclass(slots=True)
class Made:
    """The outputs of one round, in order, and the input record of each."""

    outputs: list[Output]
    sources: list[ConsumedRecord]

    def add(self, source: ConsumedRecord, outputs: Sequence[Output]) -> None:
        """Add the outputs of one input record."""
        self.outputs += outputs
        self.sources += [source] * len(outputs)

    def topics(self) -> set[str]:
        """The topics of the outputs."""
        return {each.topic for each in self.outputs}

    def rows(self) -> Rows:
        """The outputs, column by column."""
        return Rows(
            keys=[each.key for each in self.outputs],
            values=[each.value for each in self.outputs],
            topics=[each.topic for each in self.outputs],
            partitions=[each.partition for each in self.outputs],
            headers=[each.headers for each in self.outputs],
            timestamps=[each.timestamp for each in self.outputs],
        )

    def check_partitions(self, counts: dict[str, int]) -> None:
        """Raise BadRows for an output whose partition does not exist; `counts` has the partitions of each topic."""
        for output, source in zip(self.outputs, self.sources, strict=True):
            if output.partition is not None:
                try:
                    check_places(output.partition, output.partition, output.topic, counts[output.topic])
                except BadRows as error:
                    error.add_note(f"its input record is {_named(source)}")
                    raise

    def explain(self, error: BrokerError) -> None:
        """Add a note to MESSAGE_TOO_LARGE that names the largest output and its input record."""
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            sizes = [size_of(each.key, each.value, each.headers) for each in self.outputs]
            largest = max(range(len(sizes)), key=sizes.__getitem__)
            output, source = self.outputs[largest], self.sources[largest]
            error.add_note(
                f"the largest output has about {sizes[largest]} bytes, goes to topic {output.topic} and comes from"
                f" {_named(source)}; max.message.bytes of the topic limits a batch, and batch.size says how large"
                " batches are made"
            )


async def transformed(transform: Transform, consumed: ConsumedRecord) -> list[Output]:
    """The outputs of one record. Raises BadRows, or what `transform` raises, with a note that names the record."""
    try:
        answer: Any = transform(consumed)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, AsyncIterable):
            answer = [each async for each in answer]
        if not isinstance(answer, Iterable):
            raise BadRows(f"the transform returned {type(answer).__name__}, and must return a list of outputs")
        outputs = list(answer)
        for each in outputs:
            if not isinstance(each, Output):
                raise BadRows(f"the transform returned {type(each).__name__} among its outputs")
    except Exception as error:
        error.add_note(f"while transforming {_named(consumed)}; its whole transaction is aborted")
        raise
    return outputs


def _named(consumed: ConsumedRecord) -> str:
    return f"{consumed.partition} at offset {consumed.record.offset}"
