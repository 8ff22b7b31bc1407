"""`OutsideBroker`: a broker that is not of the lab, named by its address, as tests see it.

Always true: it is left running, and what only a broker of the lab tells is refused by whoever runs the tests.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from eosin.client.addresses import parse_bootstrap
from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.lab.broker_api import BrokerApi, closed
from eosin.lab.common.errors import LabError, NotToldError
from eosin.lab.lab_thread import acquire_thread, release_thread
from eosin.lab.operations import Operations

P = ParamSpec("P")
T = TypeVar("T")


class OutsideBroker(BrokerApi):
    """A broker at an address: Apache Kafka, or an Eosin that somebody else has started."""

    def __init__(self, bootstrap: str, *, refuse: Callable[[str], NoReturn]) -> None:
        """`refuse` is called with a sentence for what the broker cannot tell. Raises LabError."""
        try:
            parse_bootstrap(bootstrap)
        except (ValueError, ClientError) as wrong:
            raise LabError(f"--eosin-bootstrap is HOST:PORT, not {bootstrap!r}: {wrong}") from None
        self._bootstrap: Final = bootstrap
        self._refuse: Final = refuse
        self._thread: Final = acquire_thread()
        self._operations: Final = self._thread.call(_operations_of(bootstrap))
        self._is_closed = False

    @property
    def bootstrap(self) -> str:
        """As it was named."""
        return self._bootstrap

    def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
        if self._is_closed:
            raise closed("OutsideBroker")
        try:
            return self._thread.call(operation(self._operations, *args, **kwargs))
        except NotToldError as refused:
            self._refuse(str(refused))
        except ClientError as refused:
            raise LabError(str(refused)) from None

    def create_missing(self, topics: dict[str, int]) -> None:
        """Create the topics that do not exist."""
        there = self.call(Operations.topic_names)
        missing = {name: partitions for name, partitions in topics.items() if name not in there}
        self.call(Operations.create_topics, missing)

    def close(self) -> None:
        """Hang up."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.call(self._operations.close())
            release_thread(self._thread)


async def _operations_of(bootstrap: str) -> Operations:
    """Operations whose client is made in the loop that it lives in."""
    return Operations(Client(bootstrap))
