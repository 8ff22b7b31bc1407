"""`RecordAccess`: what the console may show of a topic's records (console.md 6).

Always true: a topic that somebody may not read as a client is hidden in the console, too. The console reads as one
principal, `eosin.console.principal`, which the authorizer decides about. Where there is none, but every listener asks
for a proof of who a client is, the page needs the token, which is such a proof.
"""

from enum import Enum
from typing import Final

from eosin.broker.security.open_listeners import is_open
from eosin.broker.services import Services
from eosin.model.close_connection import CloseConnection
from eosin.model.principals import Principal
from eosin.model.resources import Operation, ResourceType
from eosin.security.session import EVERYBODY_MAY, Session

LISTENER: Final = "HTTP"
KEYS: Final = "keys"
OFF: Final = "off"


class Shown(Enum):
    """The part of a record that is shown."""

    ALL = "full"
    KEYS = "keys"


class Hidden(Exception):
    """Nothing of these records may be shown; the text says why."""


class RecordAccess:
    """The rights of one broker's console."""

    def __init__(self, services: Services) -> None:
        self._services = services
        config = services.config
        self._principal = Principal(*config.eosin_console_principal.split(":", 1))
        self._is_super = config.eosin_console_principal in config.super_principals

    def session(self, host: str) -> Session:
        """The reader at the address `host`, as the authorizer knows it."""
        return Session(
            principal=self._principal,
            listener=LISTENER,
            host=host,
            is_super=self._is_super,
            authorizer=self._services.authorizer,
            api="console",
        )

    def to(self, topic: str, host: str) -> Shown:
        """The part of the records of `topic` that a page at the address `host` sees. Raises Hidden."""
        config = self._services.config
        if config.eosin_console_records == OFF:
            raise Hidden("eosin.console.records is off: this broker shows no records here")
        authorizer = self._services.authorizer
        if authorizer is EVERYBODY_MAY:
            if not config.eosin_http_token_file and not any(is_open(config, name) for name in config.protocols):
                raise Hidden("every listener asks clients who they are, and this page asks nobody: records are shown"
                             " where eosin.http.token.file is set")  # fmt: skip
        else:
            session = self.session(host)
            try:
                may = session.may(Operation.READ, ResourceType.TOPIC, topic)
            except CloseConnection:
                may = False
            if not may:
                raise Hidden(f"{self._principal} may not read topic {topic}: the console reads as"
                             " eosin.console.principal")  # fmt: skip
        return Shown.KEYS if config.eosin_console_records == KEYS else Shown.ALL
