"""`eosin features`: the features that a cluster has agreed on (KIP-584): `describe`, `upgrade`, `downgrade`.

Works with every cluster that tells its features, as Apache Kafka does since 3.3. Always true: all that is named is
changed, or nothing.
"""

import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from typing import Final

from eosin.cli.common.arguments import Parser
from eosin.cli.common.remote_commands import NotThere, Row, add_common, print_rows
from eosin.cli.common.suggestions import did_you_mean, nearest
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.features import Feature, FeatureAdmin, LevelRange
from eosin.protocol.errors import ErrorCode

_COMMAND: Final = "features"
_COLUMNS: Final = {"feature": "FEATURE", "level": "LEVEL", "supported": "SUPPORTED", "meaning": "MEANING"}
_CHANGED: Final = {"feature": "FEATURE", "before": "BEFORE", "after": "AFTER"}
_MEANINGS: Final = {
    "metadata.version": "records of the cluster's metadata",
    "kraft.version": "1: the controllers change while they run (KIP-853)",
    "transaction.version": "2: an epoch of its own for each transaction (KIP-890)",
    "group.version": "1: consumer groups by group.protocol=consumer (KIP-848)",
    "share.version": "1: share groups (KIP-932); 2: their dead letters (KIP-1191)",
    "streams.version": "1: groups of Kafka Streams by group.protocol=streams (KIP-1071)",
    "eligible.leader.replicas.version": "1: replicas outside of the ISR that may lead (KIP-966)",
    "eosin.version": "tells brokers of Eosin from others",
}
_REFUSED: Final = re.compile(
    r"(?:The update failed .*? error: )?Invalid update version -?\d+ for feature (\S+?)\. (.*)"
)
"""The brokers' refusal, at its start or after their introduction."""
_ANY: Final = -1
"""The level that is named by leaving it out: the highest."""
_LARGEST: Final = 2**15 - 1

Levels = Sequence[tuple[str, int]]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    command = f"{_COMMAND} {options.action}"
    if options.action == "describe":
        return print_rows(command, _describe, options, _COLUMNS)
    return print_rows(command, lambda client: _change(client, options), options, _CHANGED)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin features",
        description="Show the features that a cluster has agreed on, and change their levels.",
        examples=["eosin features describe", "eosin features upgrade group.version=1"],
    )
    actions = options.add_subparsers(dest="action", required=True, metavar="describe|upgrade|downgrade")
    describing = actions.add_parser(
        "describe",
        help="features and their levels",
        description="Show each feature with its level in force and the levels that all brokers work with.",
        examples=["eosin features describe", "eosin features describe --json"],
    )
    raising = actions.add_parser(
        "upgrade",
        help="raise levels",
        description="Raise features, all of them or none: to the level that is given, else to the highest that all"
        " brokers work with.",
        examples=["eosin features upgrade group.version", "eosin features upgrade metadata.version=33 --dry-run"],
    )
    raising.add_argument("levels", nargs="+", type=_raised, metavar="NAME[=LEVEL]")
    lowering = actions.add_parser(
        "downgrade",
        help="lower levels",
        description="Lower features, all of them or none.",
        examples=["eosin features downgrade group.version=0"],
    )
    lowering.add_argument("levels", nargs="+", type=_lowered, metavar="NAME=LEVEL")
    lowering.add_argument("--unsafe", action="store_true", help="even if metadata are lost")
    for action in (raising, lowering):
        action.add_argument("--dry-run", action="store_true", help="ask whether it could be done, and do nothing")
    for action in (describing, raising, lowering):
        add_common(action)
    return options


def _raised(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    return (name, _level(level)) if equals else (name, _ANY)


def _lowered(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise ArgumentTypeError(f"give the level, as in {name}=0")
    return name, _level(level)


def _level(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST):
        raise ArgumentTypeError(f"must be NAME=LEVEL with a number, not ...={text!r}")
    return int(text)


async def _describe(client: Client) -> Sequence[Row]:
    return [
        {
            "feature": each.name,
            "level": each.level,
            "supported": _range(each.supported),
            "meaning": _meaning(each),
            "brokers": {str(node): _range(levels) for node, levels in each.brokers.items()},
        }
        for each in await FeatureAdmin(client).describe()
    ]


def _meaning(feature: Feature) -> str | None:
    """The feature in words; where brokers differ, with those that are in the way of more."""
    highest = max(high for _, high in feature.brokers.values())
    behind = [str(node) for node, (_, high) in feature.brokers.items() if high < highest]
    meaning = _MEANINGS.get(feature.name)
    if not behind:
        return meaning
    hint = f"up to {highest}, but for broker {', '.join(behind)}"
    return hint if meaning is None else f"{meaning}; {hint}"


async def _change(client: Client, options: Namespace) -> Sequence[Row]:
    admin = FeatureAdmin(client)
    there = {each.name: each for each in await admin.describe()}
    wanted = {name: _wanted(name, level, there, options.action) for name, level in options.levels}
    try:
        if options.action == "upgrade":
            await admin.upgrade(wanted, validate_only=options.dry_run)
        else:
            await admin.downgrade(wanted, is_unsafe=options.unsafe, validate_only=options.dry_run)
    except BrokerError as error:
        raise _refusal(error, there) from None
    return [{"feature": name, "before": there[name].level, "after": level} for name, level in wanted.items()]


def _wanted(name: str, level: int, there: Mapping[str, Feature], action: str) -> int:
    """The level that a feature is to have. Raises NotThere, with the reason, for one that it cannot have."""
    feature = there.get(name)
    if feature is None:
        raise NotThere(f"no broker knows a feature {name!r}{did_you_mean(nearest(name, there))}")
    low, high = feature.supported
    if level == _ANY:
        level = max(high, feature.level)
    if action == "upgrade" and level < feature.level:
        raise NotThere(f"{name} is at {feature.level}: eosin features downgrade {name}={level} lowers it")
    if action == "downgrade" and level > feature.level:
        raise NotThere(f"{name} is at {feature.level}: eosin features upgrade {name}={level} raises it")
    if level != feature.level and level and not low <= level <= high:
        raise NotThere(f"{name} cannot be at {level}: the brokers work with {_range(feature.supported)}")
    return level


def _refusal(error: BrokerError, there: Mapping[str, Feature]) -> Exception:
    """The cluster's reason in one sentence: which feature stays, and why."""
    found = _REFUSED.fullmatch(error.message or "")
    if found is None or error.code is not ErrorCode.INVALID_UPDATE_VERSION or found[1] not in there:
        return error
    reason = found[2].rstrip(".")
    return NotThere(f"{found[1]} stays at {there[found[1]].level}: {reason[:1].lower()}{reason[1:]}")


def _range(levels: LevelRange) -> str:
    low, high = levels
    return f"{low} to {high}" if low < high else str(low) if low == high else "no level together"
