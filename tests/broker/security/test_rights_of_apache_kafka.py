"""Each request of `rights_cases.py` and `rights_of_members.py` is answered as Apache Kafka answered it, for whoever has
all rights of its row in security.md 4.6, none of them, or all but one."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import pytest
from guarded_broker import guarded_broker
from rights_run import CASES, RECORDED, Answers, of_apache_kafka, run
from toolchains import skipped_without

from eosin.broker.handlers.registry import APIS
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message

_CREATED = "a topic is created before the answer, where Apache Kafka says to ask again"
_REPEATED = "each partition repeats the error of the request (groups.md 9)"
_ANSWERED = "the request is refused with 42 (security.md 4.5.4), where Apache Kafka closes the connection"
_DONE = "an abort where nothing has begun is done (transactions.md 4.5.1)"
_JUDGED = "the entry is refused with 42 (security.md 4.5.3), where Apache Kafka has an unknown error"
_UNKNOWN = ("of an unknown type", "with an unknown pattern", "with an unknown operation", "with an unknown permission")

_AT_ONCE = "internal topics are created before the answer, where Apache Kafka says that they will be"
_KEPT = "Eosin keeps descriptions of topologies itself, Apache Kafka in a plugin that it does not have"
_DELETED = "a write of a later state epoch than the stored one is of a state that was deleted since (share-state.md)"

DIFFERENT: Final = {
    ("Metadata that creates", "all rights"): _CREATED,
    ("Metadata that creates", "without DESCRIBE topic"): _CREATED,
    ("Metadata that creates, by the cluster", "all rights"): _CREATED,
    ("OffsetFetch, old", "nobody"): _REPEATED,
    ("OffsetFetch, old", "without DESCRIBE group"): _REPEATED,
    **{
        (f"{api}, {name}", "super user"): _ANSWERED
        for api in ("CreateAcls", "DescribeAcls", "DeleteAcls")
        for name in _UNKNOWN
    },
    **{
        (f"CreateAcls, {name}", "super user"): _JUDGED
        for name in ("of any type", "with any pattern", "with a matching pattern", "with any operation")
    },
    ("CreateAcls, with any permission", "super user"): _JUDGED,
    ("EndTxn", "all rights"): _DONE,
    ("StreamsGroupHeartbeat that creates", "all rights"): _AT_ONCE,
    ("StreamsGroupHeartbeat that creates, by the cluster", "all rights"): _AT_ONCE,
    ("StreamsGroupTopologyDescriptionUpdate", "all rights"): _KEPT,
    ("WriteShareGroupState", "all rights"): _DELETED,
}
"""Why Eosin answers otherwise, by case and variant."""

REFUSED_ANYHOW: Final = ("SyncGroup without a protocol", "InitProducerId, reading only", "Fetch, describing only")
"""Cases in which the right is not the one that is needed, or something else is wrong first."""


@cache
def recorded() -> Answers:
    """What Apache Kafka said."""
    answers: Answers = json.loads(RECORDED.read_text())
    return answers


async def test_rights_are_those_of_apache_kafka() -> None:
    async with guarded_broker(transaction_timeout_recovery="kafka") as broker:

        async def ask(principal: str, key: ApiKey, version: int, request: Message) -> Any:
            return await broker.ask(principal, key, request, version=version)

        answers = await run(ask)
    assert answers.keys() == recorded().keys(), "record Apache Kafka's answers again: see rights_run.py"
    wrong = [
        f"{case}, {variant}: {sorted(set(said) - set(kafka))} where Apache Kafka says {sorted(set(kafka) - set(said))}"
        for case, variants in answers.items()
        for variant, said in variants.items()
        if (list(said) != list(kafka := recorded()[case][variant])) is not ((case, variant) in DIFFERENT)
    ]
    assert not wrong, "\n".join(wrong)
    assert not [case for case, variants in answers.items() if _tells_what_exists(variants.get("nobody", ()))]
    assert DIFFERENT.keys() <= {(case, variant) for case, variants in answers.items() for variant in variants}


def _tells_what_exists(said: Sequence[str]) -> bool:
    """Whether somebody without rights hears of a topic that exists what is not said of one that does not."""
    about = [{line.replace(name, "") for line in said if f"[{name}" in line} for name in ("other", "absent")]
    return all(about) and about[0] != about[1]


def test_every_api_that_asks_for_rights_has_a_case() -> None:
    """One that declares a right which nobody asks for looks guarded in docs/rights.md, and is open."""
    assert not {api.key.name for api in APIS if api.access is not None and api.access.rights} - {
        case.key.name for case in CASES
    }


def test_all_rights_of_a_row_are_enough_and_each_is_needed() -> None:
    """Guards the cases: what Apache Kafka says with all rights differs from what it says without one of them."""
    for case in CASES:
        said = recorded()[case.name]
        if "all rights" in said:
            others = [lines for variant, lines in said.items() if variant != "all rights"]
            differ = any(lines != said["all rights"] for lines in others)
            assert differ or case.name in REFUSED_ANYHOW, case.name


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.full
def test_apache_kafka_still_says_so() -> None:
    with skipped_without():
        answers = of_apache_kafka()
    assert answers.keys() == recorded().keys()
    assert not [
        f"{case}, {variant}: {sorted(set(said) ^ set(recorded()[case].get(variant, ())))}"
        for case, variants in answers.items()
        for variant, said in variants.items()
        if said != recorded()[case].get(variant)
    ]
    assert answers == recorded()
