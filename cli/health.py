"""`eosin health`: exit code 0 when a broker at the address answers, 1 when none does. For container health checks.

The address stands alone, or as in every other command behind `--bootstrap-server`; of several the first answer counts.

Without an address it asks 127.0.0.1:9092; in a container, where EOSIN_STATE_DIR is set, the broker's first listener.

A URL asks the HTTP listener instead: `http://HOST:PORT` means its `/readyz` (console.md 4.4).
"""

import asyncio
import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eosin.cli.common.arguments import Parser, fail, span
from eosin.cli.common.security_options import add_security, security_of
from eosin.cli.image.state import CERTIFIED, VARIABLE, OpenListener, State
from eosin.client.addresses import Address, parse_bootstrap
from eosin.client.errors import ClientError
from eosin.client.health import probe
from eosin.client.http import HttpError, get

if TYPE_CHECKING:
    import ssl

    from eosin.client.security.connection_security import ConnectionSecurity

OK: Final = 200
DEFAULT_ADDRESS: Final = "127.0.0.1:9092"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        security = _security(options)
        if options.bootstrap_server is not None:
            addresses = parse_bootstrap(options.bootstrap_server)
        elif options.address is None and VARIABLE in os.environ:
            return _of_this_container(round(options.timeout * 1000))
        elif options.address is None:
            addresses = (Address.parse(DEFAULT_ADDRESS),)
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


def _of_this_container(timeout_ms: int) -> int:
    """Ask the broker of this container: a plain listener rather than one with TLS, whose certificate names others."""
    unsaid = OpenListener("PLAINTEXT", DEFAULT_ADDRESS)  # where nothing can be written, or before the start
    found = State(os.environ).listeners or [unsaid]
    listener = min(found, key=lambda each: ("SSL" in each.protocol, each.protocol == CERTIFIED))
    try:
        asyncio.run(_reach(Address.parse(listener.address), listener.protocol, timeout_ms))
    except ClientError as error:
        return fail("health", str(error), code=1)
    except (OSError, TimeoutError) as error:
        return fail("health", f"cannot connect to {listener.address}: {error or 'no answer in time'}", code=1)
    print(f"{listener.address} answers")
    return 0


async def _reach(address: Address, protocol: str, timeout_ms: int) -> None:
    """Raises ClientError, OSError or TimeoutError unless the listener answers. One that demands a certificate is only
    connected to."""
    if protocol == CERTIFIED:
        async with asyncio.timeout(timeout_ms / 1000):
            _, writer = await asyncio.open_connection(*address)
            writer.close()
        return
    security = None
    if "SSL" in protocol:
        from eosin.client.security.connection_security import ConnectionSecurity
        from eosin.client.security.settings import ClientSecurityProtocol, SecuritySettings, TlsSettings

        security = ConnectionSecurity.of(
            SecuritySettings(ClientSecurityProtocol.SSL, TlsSettings(is_trust_checked=False))
        )
    await probe(address, timeout_ms, security=security)


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
        "address",
        nargs="?",
        metavar="HOST:PORT | URL",
        help=f"any listener ({DEFAULT_ADDRESS}; in a container the first one of its broker)",
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
