"""The rules of time of tests, as far as a program sees them, and the places that break them.

`python tests/support/rules_of_time.py --write` takes out of `tests/rules_of_time.toml` what is mended. What is new it
writes only with `--grow`: that list is to shrink.
"""

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from waiting import HANG_S

ROOT: Final = Path(__file__).parent.parent.parent
LIST: Final = ROOT / "tests" / "rules_of_time.toml"
VIRTUAL: Final = ("tests/simulation/", "tests/model_checker/")
"""All time there is simulated. Elsewhere the mark `virtual` says so."""
PYTEST_S: Final = 300
"""`timeout` in pyproject.toml."""
LEAST_PROTOCOL_MS: Final = 30_000

RULES: Final[Mapping[str, str]] = {
    "bounds": "no assertion has an upper bound on real time: have an injected clock, or measure it in bench/",
    "sleeps": "no fixed sleep or number of turns of the loop: wait for the event (waiting.py), or have a manual clock",
    "limits": f"no limit of a wait is below HANG_S, {HANG_S} s: it ends hangs and judges nothing else",
    "protocol_times": f"no session, transaction or expiry at a real process is below {LEAST_PROTOCOL_MS} ms:"
    " if its end is the subject, make the test virtual",
}

_CLOCKS: Final = {
    f"time.{name}{unit}" for name in ("monotonic", "perf_counter", "process_time", "time") for unit in ("", "_ns")
}
_LIMITED: Final = {
    **dict.fromkeys(("timeout", "wait", "join", "communicate", "flush", "result", "settimeout", "wait_closed"), 0),
    **dict.fromkeys(("init_transactions", "commit_transaction", "abort_transaction"), 0),
    **dict.fromkeys(("wait_for", "consume", "create_connection"), 1),
    "send_offsets_to_transaction": 2,
}
"""Calls that take a limit in seconds, and at which place; by its name any may."""
_MEASURES: Final = re.compile(r"monotonic|perf_counter|process_time|[.]time\(")
_MAY_BREAK: Final = re.compile(rf"sleep|time|{'|'.join(f'[.]{name}[(]' for name in _LIMITED)}")
"""Modules without it need not be parsed."""
_LIMITS: Final = {"timeout", "timeout_s", "longest_s", "request_timeout"}
_PROTOCOL_TIMES: Final = {
    "session.timeout.ms",
    "broker.session.timeout.ms",
    "rebalance.timeout.ms",
    "max.poll.interval.ms",
    "transaction.timeout.ms",
    "transactional.id.expiration.ms",
    "producer.id.expiration.ms",
    "connections.max.reauth.ms",
}
_MAKES_PRODUCERS: Final = {"transactional", "init", "producer", "producing", "begun", "another"}
"""Their `timeout_ms` is the one of a transaction."""
_OF_REAL_PROCESSES: Final = {
    *("broker_process", "joined_broker", "kraft_node", "apache_kafka", "apache_kafka_cluster", "asked_broker"),
    *("three_brokers", "mixed_cluster", "crashed_cluster", "secured_cluster", "demo_process", "shell", "secured_shell"),
    *("scenario", "real_clients", "own_client", "confluent_kafka", "kafka", "aiokafka"),
}
"""A module that imports one of them asks a real process."""
_REAL_FOLDERS: Final = ("tests/applications/", "tests/clients/", "tests/clusters/", "tests/crash/", "tests/wire/")


class Broken(NamedTuple):
    """A place that breaks a rule."""

    rule: str
    place: str
    """path::function"""
    line: int


@dataclass(frozen=True)
class Allowed:
    """An entry of the list."""

    count: int
    because: str = ""


def broken(path: str, source: str) -> list[Broken]:
    """The rules that a module breaks, in order."""
    if path.startswith(VIRTUAL) or not _MAY_BREAK.search(source):
        return []
    return sorted(set(_Module(path, source).found()), key=lambda each: each.line)


class _Module:
    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._tree = tree = ast.parse(source)
        self._numbers = dict(_constants(tree))
        self._measures = bool(_MEASURES.search(source))
        self._is_real = path.startswith(_REAL_FOLDERS) or any(
            name.partition(".")[0] in _OF_REAL_PROCESSES for name in _imported(tree)
        )

    def found(self) -> Iterator[Broken]:
        if any(_is_virtual(each) for each in self._tree.body if _assigned(each) == ["pytestmark"]):
            return
        yield from self._within(self._tree, (), (), frozenset())

    def _within(
        self, node: ast.AST, names: tuple[str, ...], around: tuple[ast.AST, ...], measured: frozenset[str]
    ) -> Iterator[Broken]:
        """The rules that are broken below a node of the function `names`. `around`: the loops and with-statements of it
        that are around the node; `measured`: the names that hold real time."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _LEAVES):
                continue
            for rule, breaks in self._looks.get(type(child), ()):
                if breaks(self, child, around, measured):
                    yield Broken(rule, f"{self._path}::{'.'.join(names)}", child.lineno)  # type: ignore[attr-defined]
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if not any(map(_is_virtual, child.decorator_list)):
                    yield from self._within(child, (*names, child.name), (), measured | self._measured(child))
            elif isinstance(child, ast.ClassDef):
                yield from self._within(child, (*names, child.name), (), measured)
            else:
                inside = (*around, child) if isinstance(child, _AROUND) else around
                yield from self._within(child, names, inside, measured)

    def _measured(self, function: ast.AST) -> frozenset[str]:
        """The names of a function that hold real time."""
        found: frozenset[str] = frozenset()
        while self._measures:
            before = found
            for node in ast.walk(function):
                match node:
                    case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                        for target, value in zip(targets, values, strict=False):
                            if _is_time(value, found):
                                found |= _names(target)
                    case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.NamedExpr(value=value):
                        if _is_time(value, found):
                            found |= frozenset(_assigned(node))
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                        if _is_time(value, found):
                            found |= {name}
            if found == before:
                break
        return found

    def _bounds(self, node: ast.Assert, around: Sequence[ast.AST], measured: frozenset[str]) -> bool:
        for each in ast.walk(node.test):
            if isinstance(each, ast.Compare):
                sides = [each.left, *each.comparators]
                for left, comparison, right in zip(sides, each.ops, sides[1:], strict=False):
                    low, high = (right, left) if isinstance(comparison, ast.Gt | ast.GtE) else (left, right)
                    is_order = isinstance(comparison, ast.Gt | ast.GtE | ast.Lt | ast.LtE)
                    if is_order and _is_time(low, measured) and not _is_time(high, measured):
                        return True
        return False

    def _sleeps(self, node: ast.Call, around: Sequence[ast.AST], measured: frozenset[str]) -> bool:
        if _dotted(node.func) not in ("time.sleep", "asyncio.sleep"):
            return False
        loops = [each for each in around if isinstance(each, ast.While | ast.For | ast.AsyncFor)]
        if node.args and self._number(node.args[0]) == 0:
            return bool(loops) and isinstance(loops[-1], ast.For) and "range(" in ast.unparse(loops[-1].iter)
        return not loops or not isinstance(loops[-1], ast.While)

    def _limits(self, node: ast.Call, around: Sequence[ast.AST], measured: frozenset[str]) -> bool:
        name = _dotted(node.func)
        limits = [each.value for each in node.keywords if each.arg in _LIMITS]
        place = _LIMITED.get(name.rpartition(".")[2])
        if place is not None and len(node.args) > place:
            limits.append(node.args[place])
        least = PYTEST_S if name.endswith("mark.timeout") else HANG_S
        numbers = [number for each in limits if (number := self._number(each)) is not None]
        return any(0 < number < least for number in numbers) and not any(map(_expects_its_end, around))

    def _ends_soon(self, node: ast.BinOp, around: Sequence[ast.AST], measured: frozenset[str]) -> bool:
        """A limit of one's own: `time.monotonic() + 10`."""
        if not (isinstance(node.op, ast.Add) and isinstance(node.left, ast.Call)):
            return False
        number = self._number(node.right)
        return _dotted(node.left.func) == "time.monotonic" and number is not None and number < HANG_S

    def _protocol_times(self, node: ast.AST, around: Sequence[ast.AST], measured: frozenset[str]) -> bool:
        return self._is_real and any(
            name.replace("_", ".") in _PROTOCOL_TIMES
            and (number := self._number(value)) is not None
            and 0 < number < LEAST_PROTOCOL_MS
            for name, value in _settings(node)
        )

    _looks: Final[Mapping[type[ast.AST], Sequence[tuple[str, Callable[..., bool]]]]] = {
        ast.Assert: [("bounds", _bounds)],
        ast.Call: [("sleeps", _sleeps), ("limits", _limits), ("protocol_times", _protocol_times)],
        ast.BinOp: [("limits", _ends_soon)],
        ast.Dict: [("protocol_times", _protocol_times)],
        ast.Constant: [("protocol_times", _protocol_times)],
    }
    """The checks of a node, by its kind."""

    def _number(self, node: ast.AST) -> float | None:
        """The number that a node stands for, if the source shows it."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Constant(value=str() as text) if text.isdecimal():
                return int(text)
            case ast.Name(id=name):
                return self._numbers.get(name)
            case ast.Call(func=ast.Name(id="str" | "int" | "float"), args=[inner]):
                return self._number(inner)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as operation, right=right):
                first, second = self._number(left), self._number(right)
                if first is None or second is None:
                    return None
                return first * second if isinstance(operation, ast.Mult) else first / second
        return None


_LEAVES: Final = (ast.Name, ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop, ast.alias, ast.arg)
_AROUND: Final = (ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)


def _assigned(node: ast.AST) -> list[str]:
    """The names that a statement gives a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)]


def _constants(tree: ast.Module) -> Iterator[tuple[str, float]]:
    """The numbers that have a name; of two that one may have, the smaller."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            given = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
            numbers = [each.value for each in given if isinstance(each, ast.Constant)]
            known = [number for number in numbers if isinstance(number, int | float)]
            if known:
                yield from ((name, min(known)) for name in _assigned(node))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _dotted(node: ast.AST) -> str:
    """The name of what is called; empty if it has none."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
    return ""


def _is_virtual(node: ast.AST) -> bool:
    return "mark.virtual" in ast.unparse(node)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_time(node: ast.AST, measured: frozenset[str]) -> bool:
    """True if a value is made of real time."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in measured:
            return True
        if isinstance(each, ast.Call) and ((name := _dotted(each.func)) in _CLOCKS or name.endswith("loop.time")):
            return True
    return False


def _expects_its_end(node: ast.AST) -> bool:
    """True if a with-statement expects that a limit runs out."""
    return isinstance(node, ast.With) and any(
        "raises(" in (text := ast.unparse(each.context_expr)) and "Timeout" in text for each in node.items
    )


def _settings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The settings that stand in a node itself, as a dictionary, as arguments or as text."""
    match node:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        case ast.Call(func=function, keywords=keywords):
            makes_producer = ast.unparse(function).rpartition(".")[2] in _MAKES_PRODUCERS
            for each in keywords:
                yield (
                    ("transaction.timeout.ms" if makes_producer and each.arg == "timeout_ms" else each.arg or ""),
                    each.value,
                )
        case ast.Constant(value=str() as text) if "=" in text and "\n" not in text:
            name, _, told = text.partition("=")
            yield name, ast.Constant(told)


def everything(folder: Path = ROOT / "tests") -> list[Broken]:
    """The rules that all tests break."""
    paths = sorted(folder.rglob("*.py"))
    return [each for path in paths for each in broken(path.relative_to(ROOT).as_posix(), path.read_text())]


def listed(text: str) -> dict[tuple[str, str], Allowed]:
    """The list: by rule and place."""
    found: dict[tuple[str, str], Allowed] = {}
    for rule, places in tomllib.loads(text).items():
        for place, entry in places.items():
            found[rule, place] = Allowed(**entry) if isinstance(entry, dict) else Allowed(entry)
    return found


def written(allowed: Mapping[tuple[str, str], Allowed]) -> str:
    """The text of the list."""
    lines = ["# Places of tests that break a rule of time: how often, and why it may stay. To shrink only; see", "# "]
    lines[1] += "docs/testing/proof.md and `python tests/support/rules_of_time.py --write`."
    for rule, says in RULES.items():
        lines += ["", f"# {says}", f"[{rule}]"]
        for (_, place), entry in sorted((key, each) for key, each in allowed.items() if key[0] == rule):
            because = entry.because.replace('"', "'")
            value: Any = f'{{ count = {entry.count}, because = "{because}" }}' if because else entry.count
            lines.append(f'"{place}" = {value}')
    return "\n".join(lines) + "\n"


def complaints(rule: str, found: Sequence[Broken], allowed: Mapping[tuple[str, str], Allowed]) -> list[str]:
    """Sentences about what is new, and about what is mended and still listed."""
    of_rule = [each for each in found if each.rule == rule]
    counts = Counter(each.place for each in of_rule)
    said = []
    for place, count in counts.items():
        known = allowed.get((rule, place), Allowed(0)).count
        if count > known:
            lines = ", ".join(str(each.line) for each in of_rule if each.place == place)
            said.append(f"{place}: {count} in the lines {lines}, {known} listed. {RULES[rule]}")
    for (of, place), entry in allowed.items():
        if of == rule and counts[place] < entry.count:
            said.append(f"{place}: {counts[place]} are left of {entry.count}: have the list shrink, with --write")
    return said


def renewed(found: Sequence[Broken], allowed: Mapping[tuple[str, str], Allowed]) -> dict[tuple[str, str], Allowed]:
    """The list as it should be now, with the reasons that it has."""
    counts = Counter((each.rule, each.place) for each in found)
    return {key: Allowed(count, allowed[key].because if key in allowed else "") for key, count in counts.items()}


def main(arguments: Sequence[str]) -> int:
    found = everything()
    allowed = listed(LIST.read_text()) if LIST.exists() else {}
    new = [
        f"{place}: {each.count} ({rule})"
        for (rule, place), each in renewed(found, allowed).items()
        if each.count > allowed.get((rule, place), Allowed(0)).count
    ]
    if new and "--grow" not in arguments:
        print("\n".join(new), "these are new: mend them, or say --grow", sep="\n", file=sys.stderr)
        return 1
    if "--write" in arguments:
        LIST.write_text(written(renewed(found, allowed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
