"""The list of APIs that this broker serves, in the order of their keys."""

from collections.abc import Mapping
from typing import Final

from eosin.broker.api import Api
from eosin.broker.handlers import api_versions

APIS: Final[tuple[Api, ...]] = (api_versions.API,)

BY_KEY: Final[Mapping[int, Api]] = {int(api.key): api for api in APIS}
assert len(BY_KEY) == len(APIS), "two handlers claim one key"
