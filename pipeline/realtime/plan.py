"""The plan of a frame for Real-time Mode, and the reasons to refuse one. Deciding is pure; `read_plan` calls Java.

Always true: what passes is a chain of steps that handle one row at a time, so the rows of each partition of the source
reach the sink in the order of their offsets, and a replay brings the same rows in the same order.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eosin.client.addresses import parse_bootstrap
from eosin.pipeline.common.errors import BadRows, ConflictingSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCE: Final = "source"
"""The column that says where a row came from."""
SOURCE_TYPE: Final = "struct<topic:string,partition:int,offset:bigint>"
_HOW_TO_NAME: Final = "select struct('topic', 'partition', 'offset').alias('source') where the frame still has them"
_KAFKA: Final = "kafka"
_LEAF: Final = "StreamingRelationV2"
_GENERATE: Final = "Generate"
_STEPS: Final = frozenset(
    {
        *("Project", "Filter", _GENERATE, "Union", "SubqueryAlias", "View", "ResolvedHint", "EventTimeWatermark"),
        *("WithCTE", "CTERelationDef", "CTERelationRef", _LEAF),
    }
)
"""Steps that handle one row at a time, by Spark's names."""
_EARLIEST: Final = -2
_LATEST: Final = -1


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """One reader of Spark's Kafka source, by its options; names are in lower case, as Spark compares them."""

    options: Mapping[str, str]

    @property
    def bootstrap(self) -> str:
        """The brokers to begin with."""
        return self.options.get("kafka.bootstrap.servers", "")

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics that it names; None for a pattern."""
        if "subscribe" in self.options:
            return frozenset(each.strip() for each in self.options["subscribe"].split(","))
        try:
            return frozenset(json.loads(self.options["assign"]))
        except (KeyError, ValueError, TypeError):
            return None

    @property
    def starting_offsets(self) -> Mapping[str, Mapping[str, int]] | str:
        """`earliest`, `latest`, or offsets by topic and partition."""
        text = self.options.get("startingoffsets", "latest").strip()
        try:
            found = json.loads(text)
        except ValueError:
            return text.lower()
        return found if isinstance(found, dict) else text

    def client_settings(self) -> dict[str, str]:
        """The settings of Kafka's clients among the options, without their prefix: those that any client knows."""
        prefix = "kafka."
        settings = {name.removeprefix(prefix): each for name, each in self.options.items() if name.startswith(prefix)}
        return {
            name: each
            for name, each in settings.items()
            if name.startswith(("security.", "ssl.", "sasl.")) or name == "bootstrap.servers"
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """A frame as far as Real-time Mode cares."""

    steps: Sequence[str]
    """Spark's names of the logical steps."""
    sources: Sequence[tuple[str, Mapping[str, str]]]
    """The format and the options of each reader; names of options are in lower case."""
    is_deterministic: bool = True

    def kafka_sources(self) -> list[KafkaSource]:
        """The readers of a plan that passed `check`."""
        return [KafkaSource(options) for _, options in self.sources]

    def check(self) -> None:
        """Raise ConflictingSettings unless every row can be written once, in order, as it comes."""
        for problem in self._problems():
            raise ConflictingSettings(problem)

    def _problems(self) -> Iterator[str]:
        for each in self.steps:
            if each not in _STEPS:
                yield (
                    f"the frame has a step {each}, and real time writes rows one by one as they come: without state,"
                    " without shuffle; take this step out, or use a trigger with batches"
                )
        if _GENERATE in self.steps and not self.is_deterministic:
            yield (
                "the frame makes several rows of one (explode) and uses a function that is not deterministic, so after"
                " a restart nobody could tell which rows were written; take the function out"
            )
        for name, _ in self.sources:
            if name != _KAFKA:
                yield f"the frame reads format {name!r}, and Real-time Mode reads Spark's own Kafka source: use 'kafka'"
        if not self.sources:
            yield "the frame reads no stream"
        yield from _problems_of_sources(self.kafka_sources())


def _problems_of_sources(sources: Sequence[KafkaSource]) -> Iterator[str]:
    if len({each.bootstrap for each in sources}) > 1:
        yield "the sources read several clusters, and topics of two clusters may have one name: use one query for each"
    seen: set[str] = set()
    for each in sources:
        topics = each.topics
        if len(sources) > 1 and topics is None:
            yield "several sources have to name their topics, with subscribe: two patterns may mean one topic"
        if twice := seen & (topics or frozenset()):
            yield f"topic {min(twice)} is read by two sources: read it once, so that its rows have one order"
        seen |= topics or frozenset()
    for each in sources:
        try:
            parse_bootstrap(each.bootstrap)
        except ValueError as error:
            yield f"kafka.bootstrap.servers: {error}"


def without_source(types: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The other columns of a frame. Raises BadRows unless there is one that names the row that was read."""
    found = dict(types)
    kind = found.pop(SOURCE, None)
    if kind is None:
        raise BadRows(f"real time needs a column {SOURCE}, to know which rows are written already: {_HOW_TO_NAME}")
    if kind != SOURCE_TYPE:
        raise BadRows(f"column {SOURCE} is {kind}, and must be {SOURCE_TYPE}: {_HOW_TO_NAME}")
    return list(found.items())


def leaves_out(source: KafkaSource, topic: str, partition: int, next_offset: int) -> bool:
    """True if a new checkpoint would begin behind the offset that comes next, so that rows would be lost."""
    options = source.options
    if any(name.startswith(("startingtimestamp", "startingoffsetsbytimestamp")) for name in options):
        return True
    starting = source.starting_offsets
    if isinstance(starting, str):
        return starting != "earliest"
    begin = starting.get(topic, {}).get(str(partition), _EARLIEST)
    return begin == _LATEST or begin > next_offset


def read_plan(frame: "DataFrame") -> Plan:
    """The plan of a frame of a classic session."""
    jframe: Any = frame._jdf
    steps: list[str] = []
    sources: list[tuple[str, dict[str, str]]] = []
    root = jframe.queryExecution().analyzed()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        name = str(node.getClass().getSimpleName())
        steps.append(name)
        if name == _LEAF:
            options = dict(node.extraOptions().asCaseSensitiveMap())
            sources.append((str(node.sourceName()), {str(key).lower(): str(each) for key, each in options.items()}))
        children = node.children()
        waiting += [children.apply(index) for index in range(children.size())]
    return Plan(steps, sources, bool(root.deterministic()))
