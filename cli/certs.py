"""`eosin certs dev`: make certificates to try TLS with.

Exit code 0 when the files are written; 2 with one sentence on stderr, and nothing written, when they cannot be.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from eosin.cli.common.arguments import Parser, fail
from eosin.runtime.clock import Clock, SystemClock

_NAME: Final = re.compile(r"[A-Za-z0-9._:*-]{1,253}")


def main(arguments: Sequence[str], clock: Clock | None = None) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    names = [name.strip() for name in options.names.split(",") if name.strip()]
    for name in names or [""]:
        if not _NAME.fullmatch(name):
            return fail(
                "certs dev", f"--names must be host names and addresses, separated by commas, not {options.names!r}"
            )
    if not _NAME.fullmatch(options.client) or len(options.client) > 64:
        return fail("certs dev", f"--client must be a name of at most 64 letters and digits, not {options.client!r}")
    from eosin.security.tls.dev_certificates import DAYS, make

    directory = Path(options.directory)
    now = datetime.fromtimestamp((clock or SystemClock()).now_ms() / 1000, UTC)
    files = make(names, client=options.client, now=now)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in files:
            if (directory / name).exists():
                return fail("certs dev", f"{directory / name} is there already; name another directory, or remove it")
        for name, content in files.items():
            path = directory / name
            path.touch(mode=0o644 if name == "ca.pem" else 0o600, exist_ok=False)
            path.write_bytes(content)
    except OSError as error:
        return fail("certs dev", f"cannot write to {directory}: {error.strerror or error}")
    print(f"made for {', '.join(names)}, valid for {DAYS} days, for trying out only:")
    print(f"  {directory / 'broker.pem'}  the broker's ssl.keystore.location")
    print(f"  {directory / 'ca.pem'}      what clients trust, and the broker's ssl.truststore.location")
    print(f"  {directory / 'client.pem'}  a client's ssl.keystore.location: User:CN={options.client},O=Eosin DEV")
    return 0


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin certs",
        description="Make certificates to try TLS with.",
        examples=("eosin certs dev --names localhost,127.0.0.1 certs",),
    )
    options.add_argument("what", choices=("dev",), help="certificates whose subject says DEV")
    options.add_argument("directory", metavar="DIR", help="where they are written")
    options.add_argument(
        "--names",
        default="localhost,127.0.0.1",
        metavar="NAME,...",
        help="how clients name the broker (localhost,127.0.0.1)",
    )
    options.add_argument("--client", default="client", metavar="NAME", help="the client's common name (client)")
    return options
