"""The judges of `--judge`: by the output of the reference run, by ids, by last values, or by a command."""

import json
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.common.values import ReadRecord
from eosin.lab.run.late_commits import LateCommit, Pair, without_copies
from eosin.lab.verdict.exactly_once import IDS, LAST_VALUE, MULTISET, Criteria, IdOf, exactly_once, id_of_record
from eosin.lab.verdict.facts import ExactlyOnceFacts
from eosin.lab.verdict.findings import DIFFERENT, LOST, STUCK, Finding, Verdict
from eosin.lab.verdict.operations import VerdictOperations

T = TypeVar("T")
COMMAND_S: Final = 60.0


class Judge:
    """Judges an application by what is in a broker."""

    def __init__(self, way: str, id_of: IdOf) -> None:
        """`way` is `multiset`, `ids`, `last-value`, or the line of a command. Raises LabError."""
        self.way: Final = way
        self._id_of: Final = id_of
        self._command: Final = () if way in (IDS, MULTISET, LAST_VALUE) else tuple(shlex.split(way))
        if not way.strip():
            raise LabError("--judge is multiset, ids, last-value, or a command")

    def judge(
        self,
        eosin: BrokerApi,
        input: str,
        outputs: Sequence[str],
        group: str | None,
        reference: Sequence[Pair] | None,
        gone: Sequence[ReadRecord] = (),
        late: Sequence[LateCommit] = (),
    ) -> Verdict:
        """The verdict; `reference` is the output of the run without faults, None if this is that run; `gone` is what of
        it has been deleted since; `late` are commits that have ended a later transaction, of which records that the
        application has done again are forgiven. Raises LabError."""
        facts = eosin.call(VerdictOperations.exactly_once_facts, [input], list(outputs), group)
        if late and reference is not None and not self._command:  # a command sees the broker itself
            facts, forgiven = without_copies(facts, late, reference)
            found = self._judged(eosin, facts, input, outputs, reference, gone)
            return replace(found, forgiven=tuple(forgiven))
        return self._judged(eosin, facts, input, outputs, reference, gone)

    def _judged(
        self,
        eosin: BrokerApi,
        facts: ExactlyOnceFacts,
        input: str,
        outputs: Sequence[str],
        reference: Sequence[Pair] | None,
        gone: Sequence[ReadRecord],
    ) -> Verdict:
        if reference is None and self.way != IDS:
            reference = output_of(eosin, outputs)
        if reference is not None and gone:
            reference = _without(reference, [(each.key, each.value) for each in gone])
        if self.way == IDS:
            expected = partial(_without, gone=[self._id_of(each) for each in gone]) if gone else None
            return exactly_once(facts, Criteria(by=IDS, id_of=self._id_of, expected=expected, ordered=False))
        by = LAST_VALUE if self.way == LAST_VALUE else MULTISET
        if not self._command:
            return _without_unread(exactly_once(facts, Criteria(by=by, reference=reference)))
        found = exactly_once(facts, Criteria(by=MULTISET, reference=output_of(eosin, outputs)))
        complaint = self._complaint(eosin, input, outputs)
        if complaint is None:
            return found
        more = (Finding(DIFFERENT, f"{self._command[0]} does not agree", complaint), *found.findings)
        return Verdict(more, found.input_records, found.output_records, found.is_moving)

    def _complaint(self, eosin: BrokerApi, input: str, outputs: Sequence[str]) -> tuple[str, ...] | None:
        """The words of the command, which gets all records as JSON; None if it exits with 0."""
        records = {
            "input": _as_json(eosin.topic(input).records()),
            "output": {name: _as_json(eosin.topic(name).records()) for name in outputs},
        }
        try:
            done = subprocess.run(
                self._command, input=json.dumps(records), capture_output=True, text=True, timeout=COMMAND_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"cannot run the judge {self._command[0]}: {error}") from None
        if done.returncode == 0:
            return None
        return tuple((done.stdout + done.stderr).splitlines()) or (f"it exits with {done.returncode}",)


def _without(wanted: Sequence[T], gone: Sequence[T]) -> list[T]:
    """The wanted ones, but for those that have been deleted, each as often as it was there."""
    return list((Counter(wanted) - Counter(gone)).elements())


def _without_unread(verdict: Verdict) -> Verdict:
    """The verdict of a comparison with all of the reference: of input that is not read, no output is lost."""
    if not verdict.of(STUCK):
        return verdict
    found = tuple(each for each in verdict.findings if each.kind not in (LOST, DIFFERENT))
    return Verdict(found, verdict.input_records, verdict.output_records, verdict.is_moving)


def output_of(eosin: BrokerApi, outputs: Sequence[str]) -> list[Pair]:
    """The keys and values that readers of committed records get from the outputs."""
    return [(each.key, each.value) for name in outputs for each in eosin.topic(name).records()]


def id_named(text: str) -> IdOf:
    """The id of a record by `key`, `header:NAME` or `json:/path`. Raises LabError."""
    kind, _, name = text.partition(":")
    ways: dict[str, Callable[[ReadRecord], Any]] = {
        "header": partial(_header, name=name),
        "json": partial(_at_path, path=name),
    }
    if text == "key":
        return id_of_record
    if kind not in ways or not name:
        raise LabError(f"--id is key, header:NAME or json:/path, not {text!r}")
    return ways[kind]


def _header(record: ReadRecord, *, name: str) -> bytes | None:
    return next((value for header, value in record.headers if header == name), None)


def _at_path(record: ReadRecord, *, path: str) -> str | None:
    try:
        found = json.loads(record.value or b"null")
        for part in path.strip("/").split("/"):
            found = found[int(part)] if isinstance(found, list) else found[part]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return json.dumps(found)


def _as_json(records: Sequence[ReadRecord]) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.offset,
            "key": None if each.key is None else each.key.decode(errors="replace"),
            "value": None if each.value is None else each.value.decode(errors="replace"),
        }
        for each in records
    ]
