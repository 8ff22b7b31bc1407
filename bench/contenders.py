"""The brokers that are compared in turns of one run: Eosin in plain Python, Eosin compiled, and Apache Kafka.

Each figure is taken several times, of one broker after the other, and told as a median and a range; a ratio is that of
neighbours in time, so that what else the machine does falls on both.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from apache_kafka import PUBLISHED_JVM, ApacheKafka
from broker_process import BrokerProcess
from sources import ROOMS, ROOT

from bench.report import Row, repeated
from eosin.network import connection as connection_module

COMPILED_FOLDER: Final = ROOT / "build" / "compiled"
COMPILED: Final = "compiled"
PLAIN: Final = "plain"
IS_COMPILED: Final = str(connection_module.__file__).endswith(".so")
"""True if this process, and each broker that it starts, runs compiled modules (`make bench COMPILED=1`)."""

Broker = BrokerProcess | ApacheKafka


class Goals(NamedTuple):
    """Limits of the ratio to Apache Kafka; None for no limit."""

    plain: float | None = None
    compiled: float | None = None


NO_GOALS: Final = Goals()


class Contender(NamedTuple):
    """One of the brokers that take turns."""

    kind: str
    """PLAIN, COMPILED, or a name with a release."""
    broker: Broker

    @property
    def is_ours(self) -> bool:
        """True of Eosin."""
        return isinstance(self.broker, BrokerProcess)


def apache_kafka(folder: Path, settings: dict[str, str] | None = None) -> ApacheKafka:
    """Apache Kafka with the options of its own start script. Raises NotHere without java and, the first time, Maven."""
    return ApacheKafka(folder / "kafka", settings=settings, heap_mb=1024, jvm=PUBLISHED_JVM)


def settings_of_kafka(durability: str) -> dict[str, str]:
    """At `os` both leave flushing to the system, Apache Kafka's default; at `fsync` both sync before they answer."""
    return {"log.flush.interval.messages": "1"} if durability == "fsync" else {}


def eosin_kinds() -> tuple[str, ...]:
    """The kinds of Eosin that this checkout has: plain, and compiled if `make compiled` has built what is there now."""
    if IS_COMPILED:
        return (COMPILED,)
    made = COMPILED_FOLDER / ".made"
    sources = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    if made.exists() and all(path.stat().st_mtime <= made.stat().st_mtime for path in sources):
        return (PLAIN, COMPILED)
    print("without the compiled broker: `make compiled` builds it", flush=True)
    return (PLAIN,)


def eosin(kind: str, data_dir: Path, durability: str = "os", port: int = 0) -> BrokerProcess:
    """A broker of one of `eosin_kinds` that has not started."""
    broker = BrokerProcess(data_dir, durability=durability, port=port)
    if kind == COMPILED and not IS_COMPILED:
        before = os.environ.get("PYTHONPATH")
        broker.environment["PYTHONPATH"] = os.pathsep.join([str(COMPILED_FOLDER), *([before] if before else [])])
    return broker


@contextmanager
def contenders(folder: Path, durability: str, kafka: ApacheKafka | None) -> Iterator[list[Contender]]:
    """All of them, started; Apache Kafka last."""
    with ExitStack() as stack:
        found = [Contender(kind, stack.enter_context(eosin(kind, folder / kind, durability))) for kind in eosin_kinds()]
        if kafka is not None:
            found.append(Contender(f"Apache Kafka {kafka.version}", stack.enter_context(kafka)))
        yield found


def rows(
    group: str,
    name: str,
    found: Sequence[tuple[Contender, Sequence[float]]],
    unit: str,
    goals: Goals = NO_GOALS,
    *,
    higher: bool = False,
) -> list[Row]:
    """A row for each kind of Eosin, beside Apache Kafka if it is there. `found` has each repetition of a figure."""
    reference = next(((each, values) for each, values in found if not each.is_ours), None)
    made = []
    for each, values in found:
        if each.is_ours:
            made.append(
                repeated(
                    group,
                    f"{name}, {COMPILED}" if each.kind == COMPILED else name,
                    values,
                    unit,
                    references=reference[1] if reference else (),
                    reference_name=reference[0].kind if reference else "",
                    budget=None if reference is None else goals.compiled if each.kind == COMPILED else goals.plain,
                    higher_is_better=higher,
                )
            )
    return made
