"""The settings of the HTTP listener, read together: where it listens, and who may ask (console.md 6)."""

import ipaddress
from typing import TYPE_CHECKING

from eosin.settings.listeners import Listener, parse_listener
from eosin.settings.settings import SettingError

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

KEY = "eosin.http.listener"
HTTP = "HTTP"
"""The name of its listener; in settings `listener.name.http.ssl...`."""
DEFAULT_HOST = "127.0.0.1"
ANONYMOUS = "User:ANONYMOUS"


def http_listener(text: str) -> Listener | None:
    """The listener at `text`, `[HOST:]PORT`; None if it is empty. Raises SettingError."""
    if not text:
        return None
    if "://" in text or "=" in text:
        raise SettingError(f"{KEY} must be [HOST:]PORT, not {text!r}")
    try:
        found = parse_listener(text if ":" in text else f"{DEFAULT_HOST}:{text}", key=KEY)
    except SettingError:
        raise SettingError(f"{KEY} must be [HOST:]PORT with a port up to 65535, not {text!r}") from None
    return Listener(HTTP, found.host, found.port)


def is_loopback(listener: Listener) -> bool:
    """True if only this machine can reach it."""
    if listener.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(listener.host).is_loopback
    except ValueError:
        return False


def _check_console(config: "BrokerConfig", listener: Listener | None) -> None:
    if listener is None:
        raise SettingError(f"eosin.console.enable needs {KEY}, or --http")
    if not config.eosin_http_token_file and not is_loopback(listener):
        raise SettingError(
            f"{KEY} {listener.address} can be reached from other machines: the console there needs"
            " eosin.http.token.file"
        )
    if config.eosin_console_actions_enable and not config.eosin_http_token_file:
        raise SettingError("eosin.console.actions.enable needs eosin.http.token.file: actions ask for its token")
    principal = config.eosin_console_principal
    kind, _, name = principal.partition(":")
    if not kind or not name:
        raise SettingError(f"eosin.console.principal must be TYPE:NAME, not {principal!r}")
    if principal != ANONYMOUS and not config.eosin_http_token_file:
        raise SettingError(
            f"eosin.console.principal {principal} needs eosin.http.token.file: else anybody here reads as it"
        )


def check_http(config: "BrokerConfig") -> None:
    """Refuse settings that would let anybody look in. Raises SettingError."""
    listener = http_listener(config.eosin_http_listener)
    if config.eosin_console_enable:
        _check_console(config, listener)
    elif config.eosin_console_actions_enable:
        raise SettingError("eosin.console.actions.enable needs eosin.console.enable, or --console")
    if config.eosin_http_ssl_enable and listener is None:
        raise SettingError(f"eosin.http.ssl.enable needs {KEY}, or --http")
    if listener is None or is_loopback(listener):
        return
    # Nobody needs a token to tell a held listener's address, as long as everybody may use the listener.
    is_public = config.eosin_http_public_metrics or bool(config.eosin_advertise_later)
    if not config.eosin_http_token_file and not is_public:
        raise SettingError(
            f"{KEY} {listener.address} can be reached from other machines: give eosin.http.token.file, or"
            " eosin.http.public.metrics=true to serve health and metrics alone"
        )
