"""What the transform of a runner makes of records.

Always true: an `Output` holds what brokers take, or is refused where it is made; and whatever a transform raises, or
answers without meaning, is told with the record that it was called for.
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
    """A record to write. Without a partition, it goes by the hash of its key, as with Kafka's Java client."""

    topic: str
    value: bytes | None
    """None is a tombstone."""
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp: int | None = None
    """ms since 1970; None is the time at which it is written."""

    def __post_init__(self) -> None:
        """Raises BadRows, so that the traceback shows who has made it."""
        named = {"key": self.key, "value": self.value, **{f"header {name!r}": value for name, value in self.headers}}
        for what, given in named.items():
            if given is not None and not isinstance(given, bytes):
                kind = type(given).__name__
                raise BadRows(f"the {what} of an output for topic {self.topic} is {kind}, and must be bytes or None")


Transform = Callable[[ConsumedRecord], Iterable[Output] | AsyncIterable[Output] | Awaitable[Iterable[Output]]]
"""What becomes of one input record. Called again for the same record after a failure."""


@dataclass(slots=True)
class Made:
    """The outputs of one round, in order, and the record that each came of."""

    outputs: list[Output]
    sources: list[ConsumedRecord]

    def add(self, source: ConsumedRecord, outputs: Sequence[Output]) -> None:
        """Take what became of one record."""
        self.outputs += outputs
        self.sources += [source] * len(outputs)

    def topics(self) -> set[str]:
        """Where they go."""
        return {each.topic for each in self.outputs}

    def rows(self) -> Rows:
        """The same, column by column."""
        return Rows(
            keys=[each.key for each in self.outputs],
            values=[each.value for each in self.outputs],
            topics=[each.topic for each in self.outputs],
            partitions=[each.partition for each in self.outputs],
            headers=[each.headers for each in self.outputs],
            timestamps=[each.timestamp for each in self.outputs],
        )

    def check_partitions(self, counts: dict[str, int]) -> None:
        """Raise BadRows for an output that asks for a partition that its topic, of so many, does not have."""
        for output, source in zip(self.outputs, self.sources, strict=True):
            if output.partition is not None:
                try:
                    check_places(output.partition, output.partition, output.topic, counts[output.topic])
                except BadRows as error:
                    error.add_note(f"it came of {_named(source)}")
                    raise

    def explain(self, error: BrokerError) -> None:
        """Note on a refusal to append which record it may be about, if that can be told."""
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            sizes = [size_of(each.key, each.value, each.headers) for each in self.outputs]
            largest = max(range(len(sizes)), key=sizes.__getitem__)
            output, source = self.outputs[largest], self.sources[largest]
            error.add_note(
                f"the largest output has about {sizes[largest]} bytes, is for topic {output.topic} and came of"
                f" {_named(source)}; max.message.bytes of a topic says how large a batch may be, and batch.size how"
                " large they are made"
            )


async def transformed(transform: Transform, consumed: ConsumedRecord) -> list[Output]:
    """What becomes of a record. Raises BadRows, or what `transform` raises, with a note that names the record."""
    try:
        answer: Any = transform(consumed)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, AsyncIterable):
            answer = [each async for each in answer]
        if not isinstance(answer, Iterable):
            raise BadRows(f"the transform answered {type(answer).__name__}, and must answer a list of outputs")
        outputs = list(answer)
        for each in outputs:
            if not isinstance(each, Output):
                raise BadRows(f"the transform answered with {type(each).__name__} among its outputs")
    except Exception as error:
        error.add_note(f"while transforming {_named(consumed)}; nothing of its transaction is kept")
        raise
    return outputs


def _named(consumed: ConsumedRecord) -> str:
    return f"{consumed.partition} at offset {consumed.record.offset}"
