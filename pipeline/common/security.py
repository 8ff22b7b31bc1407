"""Connections from the parts of a pipeline to brokers with TLS and logins: one file of settings on the driver's
machine.

Always true: only the file's path is an option of a frame, so no secret stands in a plan or a log; the settings go to
workers inside of what is sent to them anyway, with the content of stores in place of paths. Only a file with a token
(`sasl.oauthbearer.token.endpoint.url=file:...`) must be on each machine: it is read again for each login.
"""

from eosin.client.security.connection_security import ConnectionSecurity
from eosin.client.security.settings import SecuritySettingError, SecuritySettings, read_settings
from eosin.client.security.tls import context_of, with_content
from eosin.pipeline.common.errors import ConflictingSettings

PLAIN = SecuritySettings()
OPTION = "command.config"
"""The option of `txnlog` whose value is the path of the file."""


def carried_settings(path: str | None) -> SecuritySettings:
    """The settings in a file, complete for other machines. Raises ConflictingSettings."""
    if path is None:
        return PLAIN
    try:
        settings = with_content(read_settings(path))
        if settings.tls is not None:
            context_of(settings.tls)  # what cannot be used is told here, not by a worker
    except SecuritySettingError as error:
        raise ConflictingSettings(f"{OPTION}: {error}") from error
    return settings


def connection_security(settings: SecuritySettings) -> ConnectionSecurity | None:
    """The security of the connections that clients of this process make."""
    return ConnectionSecurity.of(settings)
