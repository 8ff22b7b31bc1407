"""`ConnectionSecurity`: what every connection of a client does before its first request.

security = ConnectionSecurity.of(settings)          # None for plain connections
Client(bootstrap, security=security)
"""

import ssl
from collections.abc import Mapping
from typing import Final, Self

from eosin.client.connection import Connection
from eosin.client.security.authentication import log_in
from eosin.client.security.settings import Login, SecuritySettings, security_settings
from eosin.client.security.tls import context_of


class ConnectionSecurity:
    """One TLS context and one login, for any number of connections."""

    def __init__(self, tls: ssl.SSLContext | None, login: Login | None) -> None:
        self.tls: Final = tls
        self._login: Final = login

    @classmethod
    def of(cls, settings: SecuritySettings | Mapping[str, str]) -> Self | None:
        """The security of settings, or of Kafka's client settings by name; None where they ask for none. Reads the
        stores. Raises SecuritySettingError."""
        checked = settings if isinstance(settings, SecuritySettings) else security_settings(settings)
        if not checked.protocol.has_tls and not checked.protocol.has_sasl:
            return None
        return cls(context_of(checked.tls) if checked.tls is not None else None, checked.login)

    async def authenticate(self, connection: Connection) -> int:
        """Log in, if there is a login. Returns how long the session lasts in ms, 0 for without end."""
        return 0 if self._login is None else await log_in(connection, self._login)
