"""The options of every command that connects to brokers: with which settings of a Kafka client it does so.

add_security(parser)
Client(bootstrap, security=security_of(options))        # ValueError says what is wrong with the file
"""

import os
from argparse import ArgumentParser, _ArgumentGroup
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eosin.client.security.connection_security import ConnectionSecurity


def add_security(options: ArgumentParser | _ArgumentGroup, *, variable: str | None = None) -> None:
    """The option `--command-config`, as Kafka's own tools have it; the environment's `variable` is its default."""
    named = "" if variable is None else f"; ${variable}"
    options.add_argument(
        "--command-config",
        default=None if variable is None else os.environ.get(variable) or None,
        metavar="FILE",
        help=f"settings of a Kafka client: TLS and login (security.protocol, ...{named})",
    )


def security_of(options: Any) -> "ConnectionSecurity | None":
    """The security of connections; None for plain ones. Raises ValueError with a sentence."""
    if options.command_config is None:
        return None
    from eosin.client.security.connection_security import ConnectionSecurity
    from eosin.client.security.settings import read_settings

    return ConnectionSecurity.of(read_settings(options.command_config))


def principal_of(options: Any) -> str:
    """The principal that connects, as far as a client knows: `User:app`; a broker may map a certificate or a token to
    any name. Raises ValueError with a sentence."""
    if options.command_config is None:
        return "User:ANONYMOUS"
    from eosin.client.security.settings import read_settings

    settings = read_settings(options.command_config)
    if settings.login is not None and settings.protocol.has_sasl:
        return f"User:{settings.login.user}" if settings.login.user else "the principal of this token"
    tls = settings.tls
    if settings.protocol.has_tls and tls is not None and (tls.keystore_location or tls.keystore_certificate_chain):
        return "the principal of this certificate"
    return "User:ANONYMOUS"
