"""`report_of`: what a failed test says of its brokers: open transactions, connections, warnings."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError

MOST: Final = 10
"""Brokers, and lines of a kind for each."""


def report_of(brokers: Iterable[BrokerApi]) -> str:
    """The text about brokers, each with its address."""
    chosen = list(brokers)
    lines = [line for broker in chosen[:MOST] for line in _lines(broker)]
    if len(chosen) > MOST:
        lines.append(f"and {len(chosen) - MOST} more brokers")
    return "\n".join(lines)


def _lines(broker: BrokerApi) -> Iterator[str]:
    yield f"broker {broker.bootstrap}"
    yield from _section(
        "open transactions", lambda: [broker.explain(each.transactional_id) for each in broker.open_transactions()]
    )
    yield from _section("connections", lambda: [str(each) for each in broker.connections()])
    warnings = getattr(broker, "warnings", ())
    if warnings:
        yield from _section("warnings", lambda: list(warnings))


def _section(title: str, find: Callable[[], list[str]]) -> Iterator[str]:
    try:
        found = find()
    except LabError as refused:
        found = [f"not told: {refused}"]
    yield f"  {title}: {'' if found else 'none'}".rstrip()
    yield from (f"    {each}" for each in found[:MOST])
    if len(found) > MOST:
        yield f"    and {len(found) - MOST} more"
