"""Addresses for clients that change while the broker of a container runs: `kafka-configs --alter --add-config
advertised.listeners=[...]`, by which some start a container before they know its port.

The program leaves the addresses in the state and wakes the broker with SIGUSR1, which takes them out of it. They hold
until the broker stops.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from eosin.cli.image.state import State
from eosin.node.alone_node import AloneNode
from eosin.settings.listeners import parse_listeners
from eosin.settings.settings import SettingError

if TYPE_CHECKING:
    from eosin.node.running import RunningNode

log = logging.getLogger(__name__)

KEY: Final = "advertised.listeners"
_CHECKS: Final = 100
_BETWEEN_S: Final = 0.02


def follow_changes(server: "RunningNode", variables: Mapping[str, str]) -> None:
    """Let the broker change its addresses when it is woken, if it runs alone."""
    state = State(variables)
    if not isinstance(server.part, AloneNode):
        return

    def apply() -> None:
        try:
            for each in parse_listeners(state.advertised.split(","), key=KEY):
                if each.name in server.config.protocols:
                    server.advertise(each.name, each.host, each.port)
        except SettingError as refused:
            log.warning(str(refused))
        state.advertised = ""

    with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, apply)


def change_advertised(listeners: str, variables: Mapping[str, str]) -> bool:
    """Give the broker of this container other addresses; False if there is none, or it does not take them. Raises
    SettingError for what is no list of listeners."""
    parse_listeners(listeners.split(","), key=KEY)
    state = State(variables)
    if state.pid is None:
        return False
    state.advertised = listeners
    try:
        os.kill(state.pid, signal.SIGUSR1)
    except OSError:
        return False
    return asyncio.run(_is_applied(state))


async def _is_applied(state: State) -> bool:
    for _ in range(_CHECKS):
        if not state.advertised:
            return True
        await asyncio.sleep(_BETWEEN_S)
    return False
