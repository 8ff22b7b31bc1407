"""The cost of a decision about rights (security.md 9.4): one that is remembered, and one that is not, with many
entries; the time that the authorizer takes to follow one more; and Metadata of many topics for a principal that may
know of none."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from guarded_broker import guarded_broker

from bench.report import Row
from eosin.model.acls import Acl, PatternType, Permission
from eosin.model.principals import Principal
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.security.authorizer import REMEMBERED, StandardAuthorizer
from eosin.security.session import Session

GROUP: Final = "Rights"
_PREFIXES: Final = 50
_ROUNDS: Final = 7


def run(*, quick: bool = False) -> list[Row]:
    """Measure in this process; the best of some rounds, of CPU time."""
    nobody = Session()
    rows = [
        Row(
            GROUP,
            "a question without an authorizer",
            _best_us(lambda name: nobody.may(Operation.READ, ResourceType.TOPIC, name), ["orders"] * 20_000),
            "us",
        )
    ]
    for entries, budget_us in ((10_000, 15.0), (100_000, 20.0)):
        if quick and entries > 10_000:
            continue
        alice, authorizer, took_s = _with_entries(entries)

        def ask(name: str, session: Session = alice) -> None:
            session.may(Operation.READ, ResourceType.TOPIC, name)

        if entries == 10_000:
            hit_us = _best_us(ask, ["orders"] * 20_000)
            rows.append(Row(GROUP, "a question that was asked before", hit_us, "us", budget=0.5))
        long = "p" * (_PREFIXES + 1)
        names = [[f"{long}{number}-{part}" for number in range(REMEMBERED)] for part in range(_ROUNDS)]
        miss_us = min(_us(ask, part) for part in names)
        rows.append(Row(GROUP, f"a new question, {entries:,} entries", miss_us, "us", budget=budget_us))
        rows.append(Row(GROUP, f"one more of {entries:,} entries", _one_more_ms(authorizer), "ms", budget=20.0))
        rows.append(Row(GROUP, f"{entries:,} entries at the start", took_s, "s"))
    topics = 500 if quick else 5000
    cpu_ms, turn_ms = asyncio.run(_metadata_ms(topics))
    name = f"Metadata of {topics:,} topics that are all hidden, asked for the first time"
    rows.append(Row(GROUP, name, cpu_ms, "ms", budget=60.0))
    rows.append(Row(GROUP, "the same, longest turn of the loop", turn_ms, "ms", budget=10.0))
    return rows


async def _metadata_ms(topics: int) -> tuple[float, float]:
    """CPU time of the request, and the longest that it kept the loop."""
    async with guarded_broker() as broker:
        await broker.create_topics(*(f"topic-{number}" for number in range(topics)))
        loop, turns, marks = asyncio.get_running_loop(), list[float](), [time.thread_time()]

        def turn() -> None:
            marks.append(time.thread_time())
            turns.append(marks[-1] - marks[-2])
            if not asked.done():
                loop.call_soon(turn)

        before_s = time.process_time()
        asked = loop.create_task(broker.ask("User:nobody", ApiKey.METADATA, MetadataRequest(topics=None)))
        loop.call_soon(turn)
        answer = await asked
        took_s = time.process_time() - before_s
        turn()
        assert not answer.topics
    return took_s * 1000, max(turns) * 1000


def _with_entries(count: int) -> tuple[Session, StandardAuthorizer, float]:
    """Somebody with prefixed entries of many lengths, among very many others, and how long it took to arrange them."""
    acls = [
        Acl(2, f"topic-{number}", PatternType.LITERAL, f"User:u{number % 1000}", "*", Operation.READ, Permission.ALLOW)
        for number in range(count - _PREFIXES)
    ]
    acls += [
        Acl(2, "p" * length, PatternType.PREFIXED, "User:alice", "*", Operation.WRITE, Permission.ALLOW)
        for length in range(1, _PREFIXES + 1)
    ]
    authorizer = StandardAuthorizer()
    before_s = time.process_time()
    authorizer.change(added=acls)
    took_s = time.process_time() - before_s
    return Session(principal=Principal("User", "alice"), host="10.0.0.1", authorizer=authorizer), authorizer, took_s


def _one_more_ms(authorizer: StandardAuthorizer) -> float:
    acl = Acl(2, "topic-1", PatternType.LITERAL, "User:new", "*", Operation.READ, Permission.ALLOW)
    took: list[float] = []
    for _ in range(_ROUNDS):
        before_s = time.process_time()
        authorizer.change(added=[acl])
        took.append(time.process_time() - before_s)
        authorizer.change(removed=[acl])
    return min(took) * 1000


def _best_us(ask: Callable[[str], object], names: list[str]) -> float:
    return min(_us(ask, names) for _ in range(_ROUNDS))


def _us(ask: Callable[[str], object], names: list[str]) -> float:
    before_s = time.process_time()
    for name in names:
        ask(name)
    return (time.process_time() - before_s) / len(names) * 1e6
