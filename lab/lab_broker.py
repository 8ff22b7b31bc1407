"""`LabBroker`: one broker of the lab, started, asked and closed in the event loop that runs it.

Always true: what it has written to a disk lies in a directory of its own, which goes when it closes.
"""

import asyncio
import atexit
import logging
import os
import shutil
import tempfile
from typing import Final, Self

from eosin.lab.common.errors import LabError
from eosin.lab.common.values import ConnectionInWork
from eosin.lab.faults.armed_rules import ArmedRules, FaultHooks
from eosin.lab.history.hooks import RecordingHooks
from eosin.lab.history.recording import OFF, Recording
from eosin.lab.inside import Inside
from eosin.lab.inside_client import InsideClient
from eosin.lab.operations import Operations
from eosin.lab.options import MEMORY, BrokerOptions
from eosin.network.request_hooks import RequestHooks
from eosin.node.node import Node
from eosin.node.running import RunningNode
from eosin.runtime.chance import SystemChance
from eosin.runtime.clock import SystemClock
from eosin.settings.start_error import StartError

log = logging.getLogger(__name__)

_SEEDS: Final = 2**32
CLOSE_S: Final = 2.0
"""Longest time that a close may take."""


class LabBroker:
    """A broker that serves."""

    def __init__(
        self,
        node: RunningNode,
        options: BrokerOptions,
        folder: str | None,
        recording: Recording | None,
        rules: ArmedRules,
    ) -> None:
        """Use `start`."""
        self._node: Final = node
        self._options: Final = options
        self._folder: Final = folder
        self.bootstrap: Final = node.addresses[0]
        """HOST:PORT for clients."""
        self.operations: Final = Operations(InsideClient(node), Inside(node, recording))
        self.operations.rules = self._rules = rules

    @classmethod
    async def start(cls, options: BrokerOptions) -> Self:
        """Start it, with its topics. Raises LabError."""
        folder = None
        if options.durability != MEMORY and "log.dirs" not in options.settings:
            folder = _new_folder()
        recording = None if options.record == OFF else Recording(SystemClock(), level=options.record)
        rules = ArmedRules(seed=_seed_of(options), wire=SystemClock())
        hooks: RequestHooks = FaultHooks(rules)
        if recording is not None:
            hooks = recorder = RecordingHooks(recording, hooks)
            rules.on_event = recorder.fired
        try:
            node = await Node.alone(options.config(folder), first_topics=options.first_topics, hooks=hooks).start()
        except StartError as refused:
            _remove(folder)
            raise LabError(str(refused)) from None
        except BaseException:
            _remove(folder)
            raise
        return cls(node, options, folder, recording, rules)

    @property
    def complaints(self) -> list[str]:
        """The reasons for which a test fails that has used it, once it is closed."""
        return self._rules.complaints

    async def close(self) -> list[ConnectionInWork]:
        """Stop it. Returns the connections whose requests it has not answered, after a warning in the log."""
        node = self._node
        if node.is_stopping:
            return []
        left = [each for each in await self.operations.connections() if each.waits_for]
        for each in left:
            log.warning("the broker is closed while %s", each)
        self._rules.end()
        try:
            async with asyncio.timeout(CLOSE_S):
                await node.shutdown()
        except TimeoutError:
            log.warning("the broker was not closed within %g s", CLOSE_S)
        finally:
            _remove(self._folder)
        return left


def _seed_of(options: BrokerOptions) -> int:
    return SystemChance().below(_SEEDS) if options.seed is None else options.seed


def _new_folder() -> str:
    """A folder for the files of a broker. Raises LabError."""
    try:
        folder = tempfile.mkdtemp(prefix="eosin-lab-")
    except OSError as error:
        where = "" if error.filename is None else f" in {os.path.dirname(error.filename)}"
        raise LabError(
            f"cannot make a folder for the files of a broker{where}: {error.strerror}; set TMPDIR to another place, or"
            " leave out durability"
        ) from None
    _FOLDERS[folder] = None
    return folder


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        _FOLDERS.pop(folder, None)


_FOLDERS: Final[dict[str, None]] = {}
"""Folders of brokers that nobody has closed, as after Ctrl-C: they go with the process."""


def _remove_all() -> None:
    for each in list(_FOLDERS):
        _remove(each)


atexit.register(_remove_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FOLDERS.clear)
