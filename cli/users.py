"""`eosin users add | passwd | list | delete`: the users of a cluster, by SCRAM credentials (security.md 4.1, 8.3).

They ask a running cluster, or with `--data-dir` the directory of a stopped broker: so a broker gets its first user.
Both take the same request and keep the same rules. Exit code 0 when it is done, 1 when the user is not there or is
there already, 2 with one sentence on stderr when it cannot be done as asked.
"""

import argparse
import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from eosin.broker.security.user_changes import MAX_NAME_CHARS
from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.remote_commands import NotThere, Row, add_common, print_rows, show, shown
from eosin.client.client import Client
from eosin.client.users import UserAdmin
from eosin.protocol.sasl.plain import MAX_PASSWORD_BYTES
from eosin.protocol.sasl.scram_credentials import MAX_ITERATIONS, MIN_ITERATIONS
from eosin.protocol.sasl.steps import Mechanism
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from eosin.security.passwords import new_password, upsertion
from eosin.security.sasl.lookup import DEFAULT_ITERATIONS, MECHANISMS, NUMBERS

Found = Mapping[str, Mapping[int, int]]
"""Iterations by mechanism, by user."""

_COMMAND: Final = "users"
_LISTED: Final = {"user": "USER", "mechanism": "MECHANISM", "iterations": "ITERATIONS"}
_MADE: Final = {**_LISTED, "password": "PASSWORD"}


class Users(Protocol):
    """A store of users."""

    async def found(self, user: str | None) -> Found:
        """All users, or one if he is there."""

    async def alter(self, request: AlterUserScramCredentialsRequest) -> None:
        """Change them, all or none."""


Action = Callable[[Users, argparse.Namespace], Awaitable[Sequence[Row]]]


class _Unusable(Exception):
    """The request cannot be carried out; the message is one sentence."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    command = f"{_COMMAND} {options.action}"
    asked, columns = _ACTIONS[options.action]
    try:
        _prepare(options)
    except _Unusable as error:
        return fail(command, str(error))
    if getattr(options, "password", None) is None or options.is_given:
        columns = _LISTED
    if options.data_dir is not None:
        return _offline(command, asked, columns, options)
    return print_rows(command, lambda client: asked(_ClusterUsers(client), options), options, columns)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin users",
        description="Show and change the users of a cluster.",
        examples=["eosin users add admin --data-dir /var/lib/eosin", "eosin users list"],
    )
    actions = options.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser(
        "add",
        help="add a user, by default with a new password, which is printed once",
        examples=["eosin users add admin --data-dir /var/lib/eosin", "eosin users add app --password-file secret.txt"],
    )
    passwd = actions.add_parser(
        "passwd", help="give a user another password", examples=["eosin users passwd app --password-file -"]
    )
    listing = actions.add_parser("list", help="show all users", examples=["eosin users list --json"])
    delete = actions.add_parser(
        "delete",
        help="delete a user, and close the connections of that user",
        examples=["eosin users delete app", "eosin users delete app --mechanism SCRAM-SHA-256"],
    )
    for action in (add, passwd, delete):
        action.add_argument("user", metavar="NAME")
        action.add_argument(
            "--mechanism",
            action="append",
            choices=[str(each) for each in NUMBERS],
            help="for this mechanism; may be repeated (add: both; passwd, delete: those that the user has)",
        )
    for action in (add, passwd):
        action.add_argument(
            "--iterations",
            type=int,
            default=DEFAULT_ITERATIONS,
            metavar="N",
            help=f"what a guess shall cost, {MIN_ITERATIONS} to {MAX_ITERATIONS} ({DEFAULT_ITERATIONS})",
        )
        action.add_argument(
            "--password-file", metavar="FILE", help="the password is its first line; - asks for it, or reads stdin"
        )
    for action in (add, passwd, listing, delete):
        action.add_argument(
            "--data-dir", metavar="DIR", help="change the directory of a stopped broker instead of asking a cluster"
        )
        add_common(action)
    return options


# The four actions ----------------------------------------------------------------------------------------------------


async def _add(users: Users, options: argparse.Namespace) -> Sequence[Row]:
    if await users.found(options.user):
        raise NotThere(f"there is a user {options.user!r} already: eosin users passwd gives another password")
    return await _set(users, options, options.mechanism or [str(each) for each in NUMBERS])


async def _passwd(users: Users, options: argparse.Namespace) -> Sequence[Row]:
    held = await _held(users, options.user)
    return await _set(users, options, options.mechanism or [str(MECHANISMS[each]) for each in held])


async def _set(users: Users, options: argparse.Namespace, names: Sequence[str]) -> Sequence[Row]:
    """One request for each mechanism: a request names a user once."""
    rows = []
    for name in dict.fromkeys(names):
        mechanism = Mechanism(name)
        made = upsertion(options.user, mechanism, options.password, iterations=options.iterations)
        await users.alter(AlterUserScramCredentialsRequest(upsertions=(made,)))
        row = _row(options.user, made.mechanism, made.iterations)
        rows.append(row if options.is_given else {**row, "password": options.password})
    return rows


async def _list(users: Users, options: argparse.Namespace) -> Sequence[Row]:
    found = await users.found(None)
    return [
        _row(user, mechanism, found[user][mechanism]) for user in sorted(found) for mechanism in sorted(found[user])
    ]


async def _delete(users: Users, options: argparse.Namespace) -> Sequence[Row]:
    held = await _held(users, options.user)
    wanted = [NUMBERS[Mechanism(each)] for each in dict.fromkeys(options.mechanism or ())] or list(held)
    missing = [str(MECHANISMS[each]) for each in wanted if each not in held]
    if missing:
        raise NotThere(f"user {options.user!r} has no password for {', '.join(missing)}")
    for mechanism in wanted:
        await users.alter(AlterUserScramCredentialsRequest((ScramCredentialDeletion(options.user, mechanism),)))
    return [_row(options.user, mechanism, held[mechanism]) for mechanism in wanted]


async def _held(users: Users, user: str) -> Mapping[int, int]:
    held = (await users.found(user)).get(user)
    if not held:
        raise NotThere(f"there is no user {user!r}")
    return held


def _row(user: str, mechanism: int, iterations: int) -> dict[str, Any]:
    name = str(MECHANISMS[mechanism]) if mechanism in MECHANISMS else f"mechanism {mechanism}"
    return {"user": user, "mechanism": name, "iterations": iterations}


_ACTIONS: Final[Mapping[str, tuple[Action, Mapping[str, str]]]] = {
    "add": (_add, _MADE),
    "passwd": (_passwd, _MADE),
    "list": (_list, _LISTED),
    "delete": (_delete, _LISTED),
}

# Where they are kept -------------------------------------------------------------------------------------------------


class _ClusterUsers:
    """The users of a running cluster."""

    def __init__(self, client: Client) -> None:
        self._admin = UserAdmin(client)

    async def found(self, user: str | None) -> Found:
        return {
            each.user: {info.mechanism: info.iterations for info in each.credential_infos}
            for each in await self._admin.describe(user)
        }

    async def alter(self, request: AlterUserScramCredentialsRequest) -> None:
        await self._admin.alter(request)


def _offline(command: str, asked: Action, columns: Mapping[str, str], options: argparse.Namespace) -> int:
    """Do it on the directory of a stopped broker."""
    from eosin.broker.security.offline_users import offline_users
    from eosin.cluster.metadata.log import UnreadableMetadata
    from eosin.node.unusable_directory import cannot_use
    from eosin.security.process import keep_files_private

    keep_files_private()

    async def run() -> Sequence[Row]:
        async with offline_users(options.data_dir, may_make=options.action == "add") as users:
            return await asked(users, options)

    try:
        rows = asyncio.run(run())
    except NotThere as error:
        return fail(command, str(error), code=1)
    except (OSError, UnreadableMetadata) as error:
        return fail(command, str(cannot_use(options.data_dir, error)))
    return show(shown(rows, columns, options))


# What was given ------------------------------------------------------------------------------------------------------


def _prepare(options: argparse.Namespace) -> None:
    """Check what no parser can, and find the password. Raises _Unusable."""
    options.is_given = getattr(options, "password_file", None) is not None
    if options.action == "list":
        return
    if not 0 < len(options.user) <= MAX_NAME_CHARS or not options.user.isprintable():
        raise _Unusable(f"NAME must have 1 to {MAX_NAME_CHARS} printable characters")
    if options.action == "delete":
        return
    if not MIN_ITERATIONS <= options.iterations <= MAX_ITERATIONS:
        raise _Unusable(f"--iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {options.iterations}")
    options.password = _given(options.password_file) if options.is_given else new_password()
    if not options.password:
        raise _Unusable("the password is empty")
    if len(options.password.encode("utf-8")) > MAX_PASSWORD_BYTES:
        raise _Unusable(f"the password is longer than {MAX_PASSWORD_BYTES} bytes")


def _given(file: str) -> str:
    """The password from a file, from stdin, or from the terminal without an echo."""
    if file == "-" and sys.stdin.isatty():
        first, second = getpass.getpass("Password: "), getpass.getpass("Once more: ")
        if first != second:
            raise _Unusable("the two passwords differ")
        return first
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise _Unusable(f"cannot read the password from {file}: {why}") from None
    return text.split("\n", 1)[0].removesuffix("\r")
