"""`eosin health`: exit code 0 when a broker at the address answers, 1 when none does. For container health checks."""

import asyncio
from collections.abc import Sequence

from eosin.broker.cli.arguments import Parser, fail, span
from eosin.client.addresses import Address
from eosin.client.errors import ClientError
from eosin.client.health import probe


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        address = Address.parse(options.address)
    except ValueError as error:
        return fail("health", str(error))
    try:
        asyncio.run(probe(address, round(options.timeout * 1000)))
    except ClientError as error:
        return fail("health", str(error), code=1)
    print(f"{address} answers")
    return 0


def parser() -> Parser:
    """The options of the command."""
    options = Parser(prog="eosin health", description="Tell by the exit code whether a broker answers.")
    options.add_argument(
        "address", nargs="?", default="127.0.0.1:9092", metavar="HOST:PORT", help="any listener (127.0.0.1:9092)"
    )
    options.add_argument("--timeout", type=span, default=3.0, metavar="SECONDS", help="how long to wait (3)")
    return options
