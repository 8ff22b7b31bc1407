"""`report_of`: what a failed test says of its brokers: open transactions, connections, warnings, the last of the
history. `saved_run` has all of it, for a file."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.common.failed_test import FailedTest
from eosin.lab.faults.operations import FaultOperations
from eosin.lab.history.operations import HistoryOperations
from eosin.lab.verdict.operations import VerdictOperations

MOST: Final = 10
"""Brokers, and lines of a kind for each."""
MOST_HISTORY: Final = 40
"""Lines of the history of each."""


def report_of(brokers: Iterable[BrokerApi]) -> str:
    """The text about brokers, each with its address."""
    chosen = list(brokers)
    lines = [line for broker in chosen[:MOST] for line in _lines(broker)]
    if len(chosen) > MOST:
        lines.append(f"and {len(chosen) - MOST} more brokers")
    return "\n".join(lines)


def _lines(broker: BrokerApi) -> Iterator[str]:
    address = f"broker {broker.bootstrap}"
    seed = "".join(_found(lambda: [broker.call(VerdictOperations.seed_text)]))
    yield ", ".join(filter(None, (address, seed)))
    yield from _section(
        "open transactions", lambda: [broker.explain(each.transactional_id) for each in broker.open_transactions()]
    )
    yield from _section("connections", lambda: broker.call(VerdictOperations.connection_lines))
    rules = _found(lambda: broker.call(VerdictOperations.rule_lines))
    if rules:
        yield from _section("faults", lambda: rules, most=MOST_HISTORY)
    warnings = getattr(broker, "warnings", ())
    if warnings:
        yield from _section("warnings", lambda: list(warnings))
    yield from _section("history", lambda: broker.call(HistoryOperations.last_lines, MOST_HISTORY), most=MOST_HISTORY)


def _found(find: Callable[[], list[str]]) -> list[str]:
    try:
        return find()
    except LabError as refused:
        return [f"not told: {refused}"]


def _section(title: str, find: Callable[[], list[str]], *, most: int = MOST) -> Iterator[str]:
    found = _found(find)
    yield f"  {title}: {'' if found else 'none'}".rstrip()
    yield from (f"    {each}" for each in found[:most])
    if len(found) > most:
        yield f"    and {len(found) - most} more"


def saved_run(failed: FailedTest, brokers: Iterable[BrokerApi]) -> tuple[bytes, FailedTest]:
    """All that is known of the brokers of a test, as JSON, and the test with their seeds."""
    chosen = list(brokers)
    seeds = tuple(dict.fromkeys(each for broker in chosen for each in _seeds(broker)))
    whole = msgspec.structs.replace(failed, seeds=seeds)
    saved = {**msgspec.to_builtins(whole), "again": whole.command, "brokers": [_saved(each) for each in chosen]}
    return msgspec.json.format(msgspec.json.encode(saved)), whole


def _seeds(broker: BrokerApi) -> list[int]:
    """Its seed; none of a broker that is not of the lab, or closed."""
    text = "".join(_found(lambda: [broker.call(VerdictOperations.seed_text)]))
    number = text.removeprefix("seed ")
    return [int(number)] if number.isdecimal() else []


def _saved(broker: BrokerApi) -> dict[str, object]:
    found: dict[str, object] = {"bootstrap": broker.bootstrap, "warnings": list(getattr(broker, "warnings", ()))}
    parts: dict[str, Callable[[], object]] = {
        "open_transactions": broker.open_transactions,
        "connections": lambda: broker.call(VerdictOperations.connection_lines),
        "seed": lambda: broker.call(VerdictOperations.seed_text),
        "faults": lambda: broker.call(FaultOperations.faults),
        "kept": lambda: broker.history.span,
        "history": lambda: broker.call(HistoryOperations.kept_history),
    }
    for name, find in parts.items():
        try:
            found[name] = find()
        except LabError as refused:
            found[name] = f"not told: {refused}"
    return found
