"""The judges of `--judge`: records of the output that the incident has deleted."""

from typing import Any

import pytest

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.values import ReadRecord
from eosin.lab.run.judge import Judge, id_named
from eosin.lab.verdict.facts import ExactlyOnceFacts, GroupPosition, LoggedPartition
from eosin.lab.verdict.findings import Verdict


def log(topic: str, keys: str) -> LoggedPartition:
    """A partition with a record of each key, whose id is in its value and in a header too."""
    records = tuple(
        ReadRecord(topic, 0, offset, 0, key.encode(), f'{{"id": "{key}"}}'.encode(), (("id", key.encode()),))
        for offset, key in enumerate(keys)
    )
    return LoggedPartition(topic, 0, records, tuple(range(len(keys))), (), len(keys), len(keys))


class TopicMadeAnew(BrokerApi):
    """An output that has these keys now; the input of four records was consumed."""

    def __init__(self, keys: str) -> None:
        committed = (GroupPosition("input", 0, 4),)
        self._facts = ExactlyOnceFacts((log("input", "abcd"),), (log("output", keys),), "copier", committed, ())

    def call(self, *_: Any, **_named: Any) -> Any:
        return self._facts


def judged(way: str, by: str, now: str) -> Verdict:
    """The verdict about an output that had a and b when it was deleted."""
    reference = None if way == "ids" else [(each.key, each.value) for each in log("output", "abcd").records]
    judge = Judge(way, id_named(by))
    return judge.judge(TopicMadeAnew(now), "input", ["output"], "copier", reference, log("output", "ab").records)


WAYS = [("multiset", "key"), ("ids", "key"), ("ids", "header:id"), ("ids", "json:/id")]


@pytest.mark.parametrize(("way", "by"), WAYS)
def test_nobody_expects_what_has_gone_with_its_topic(way: str, by: str) -> None:
    assert not judged(way, by, "cd").findings


@pytest.mark.parametrize(("way", "by"), WAYS)
def test_what_the_new_topic_should_have_is_lost_all_the_same(way: str, by: str) -> None:
    assert [each.kind for each in judged(way, by, "c").findings] == ["lost"]


@pytest.mark.parametrize("by", ["key", "header:id", "json:/id"])
def test_what_the_new_topic_has_twice_is_doubled_all_the_same(by: str) -> None:
    assert [each.kind for each in judged("ids", by, "ccd").findings] == ["doubled"]
