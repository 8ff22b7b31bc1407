"""`eosin quotas list | set | remove`: how much users, client ids and addresses may use, of any Kafka cluster."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from eosin.cli.common.arguments import Parser, fail, setting
from eosin.cli.common.remote_commands import NotThere, Row, add_common, print_rows
from eosin.client.client import Client
from eosin.client.quotas import Entity, QuotaAdmin

_COMMAND: Final = "quotas"
_COLUMNS: Final = {"user": "USER", "client_id": "CLIENT ID", "ip": "IP", "quotas": "QUOTAS"}
_DEFAULT: Final = "<default>"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    command = f"{_COMMAND} {options.action}"
    try:
        entity = _entity(options)
        values = _values(options)
    except ValueError as error:
        return fail(command, str(error))
    if options.action != "list" and not entity:
        return fail(command, "give --user, --client-id or --ip, or the default of one")
    return print_rows(command, lambda client: _work(client, options.action, entity, values), options, _COLUMNS)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin quotas",
        description="Show and change how much users, client ids and addresses may use.",
        examples=["eosin quotas list", "eosin quotas set --user alice producer_byte_rate=1048576"],
    )
    actions = options.add_subparsers(dest="action", required=True, metavar="list|set|remove")
    listing = actions.add_parser(
        "list",
        help="the quotas that were set",
        description="Show quotas, all of them or those of an entity.",
        examples=["eosin quotas list", "eosin quotas list --user alice --json"],
    )
    putting = actions.add_parser(
        "set",
        help="set quotas",
        description="Set quotas of an entity, all of them or none.",
        examples=[
            "eosin quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
            "eosin quotas set --client-id-default request_percentage=50",
            "eosin quotas set --user alice --client-id app controller_mutation_rate=5",
        ],
    )
    putting.add_argument("quotas", nargs="+", type=setting, metavar="KEY=VALUE")
    removing = actions.add_parser(
        "remove",
        help="remove quotas",
        description="Remove quotas of an entity, all of them or none.",
        examples=["eosin quotas remove --user alice producer_byte_rate"],
    )
    removing.add_argument("keys", nargs="+", metavar="KEY")
    for action in (listing, putting, removing):
        for kind, what in (("user", "user"), ("client-id", "client id"), ("ip", "address")):
            either = action.add_mutually_exclusive_group()
            either.add_argument(f"--{kind}", metavar="NAME", help=f"of the {what} NAME")
            either.add_argument(f"--{kind}-default", action="store_true", help=f"of each {what} without one of its own")
        add_common(action)
    return options


def _entity(options: Namespace) -> Entity:
    found: dict[str, str | None] = {}
    for kind in ("user", "client-id", "ip"):
        name = getattr(options, kind.replace("-", "_"))
        if name == "":
            raise ValueError(f"--{kind} needs a name")
        if name is not None or getattr(options, f"{kind.replace('-', '_')}_default"):
            found[kind] = name
    if "ip" in found and len(found) > 1:
        raise ValueError("--ip goes with neither --user nor --client-id")
    return found


def _values(options: Namespace) -> dict[str, float | None]:
    if options.action == "remove":
        return dict.fromkeys(options.keys)
    values: dict[str, float | None] = {}
    for key, text in getattr(options, "quotas", ()):
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            raise ValueError(f"{key} must be a number above 0, not {text!r}")
        values[key] = value
    return values


async def _work(client: Client, action: str, entity: Entity, values: dict[str, float | None]) -> Sequence[Row]:
    admin = QuotaAdmin(client)
    if action != "list":
        await admin.alter(entity, values)
        return [_row(entity, {key: value for key, value in values.items() if value is not None})]
    found = await admin.describe(entity)
    if entity and not found:
        raise NotThere("there is no such quota")
    return [_row(each, quotas) for each, quotas in found]


def _row(entity: Entity, quotas: dict[str, float]) -> Row:
    names = {kind.replace("-", "_"): _DEFAULT if name is None else name for kind, name in entity.items()}
    numbers = {key: int(value) if value == int(value) else value for key, value in sorted(quotas.items())}
    return {"user": None, "client_id": None, "ip": None, **names, "quotas": numbers}
