"""`eosin health`: exit code 0 when a broker at the address answers, 1 when none does. For container health checks.

The address stands alone, or as in every other command behind `--bootstrap-server`; of several the first answer counts.

A URL asks the HTTP listener instead: `http://HOST:PORT` means its `/readyz` (console.md 4.4).
"""

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eosin.cli.common.arguments import Parser, fail, span
from eosin.cli.common.security_options import add_security, security_of
from eosin.client.addresses import Address, parse_bootstrap
from eosin.client.errors import ClientError
from eosin.client.health import probe
from eosin.client.http import HttpError, get

if TYPE_CHECKING:
    import ssl

    from eosin.client.security.connection_security import ConnectionSecurity

OK: Final = 200


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        security = _security(options)
        if options.bootstrap_server is not None:
            addresses = parse_bootstrap(options.bootstrap_server)
        elif options.address.startswith(("http://", "https://")):
            tls = None if security is None else security.tls
            return _over_http(options.address, round(options.timeout * 1000), tls)
        else:
            addresses = (Address.parse(options.address),)
    except ValueError as error:
        return fail("health", str(error))
    silent = []
    for address in addresses:
        try:
            asyncio.run(probe(address, round(options.timeout * 1000), security=security))
        except ClientError as error:
            silent.append(str(error))
        else:
            print(f"{address} answers")
            return 0
    return fail("health", "; ".join(silent), code=1)


def _over_http(url: str, timeout_ms: int, tls: "ssl.SSLContext | None") -> int:
    asked = url if url.count("/") > 2 else f"{url}/readyz"
    try:
        answer = asyncio.run(get(asked, timeout_ms=timeout_ms, tls=tls))
    except HttpError as error:
        return fail("health", str(error), code=1)
    if answer.status != OK:
        why = answer.body[:500].decode("utf-8", "replace").strip()
        return fail("health", f"{asked} answers HTTP {answer.status}: {why}", code=1)
    print(f"{asked} answers")
    return 0


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin health",
        description="Tell by the exit code whether a broker answers.",
        examples=["eosin health 127.0.0.1:9092", "eosin health https://broker-1:9100 --ca ca.pem"],
    )
    where = options.add_mutually_exclusive_group()
    where.add_argument(
        "address", nargs="?", default="127.0.0.1:9092", metavar="HOST:PORT | URL", help="any listener (127.0.0.1:9092)"
    )
    where.add_argument("--bootstrap-server", metavar="HOST:PORT", help="the same, as other commands take it")
    options.add_argument("--timeout", type=span, default=3.0, metavar="SECONDS", help="how long to wait (3)")
    security = options.add_mutually_exclusive_group()
    security.add_argument("--ca", metavar="FILE", help="speak TLS; the broker's certificate leads to these (PEM)")
    security.add_argument("--insecure", action="store_true", help="speak TLS with whomever answers")
    add_security(security)
    return options


def _security(options: Namespace) -> "ConnectionSecurity | None":
    """The security of the connection; None for a plain one. Raises ValueError with a sentence."""
    if options.ca is None and not options.insecure:
        return security_of(options)
    from eosin.client.security.connection_security import ConnectionSecurity
    from eosin.client.security.settings import ClientSecurityProtocol, SecuritySettings, TlsSettings

    tls = TlsSettings(truststore_location=options.ca, is_trust_checked=not options.insecure)
    return ConnectionSecurity.of(SecuritySettings(ClientSecurityProtocol.SSL, tls))
