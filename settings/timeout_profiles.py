"""`profiles`: how clients that are named are told of a timeout (transactions.md 12.3)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from eosin.coordinator.transactions.rules.timeout_errors import Profile
from eosin.settings.settings import SettingError


@lru_cache(maxsize=16)
def profiles(texts: Sequence[str]) -> Mapping[str, Profile]:
    """The setting `transaction.timeout.recovery.profiles`, read. Raises SettingError."""
    read = {}
    for text in texts:
        software, colon, name = text.rpartition(":")
        if not colon or not software or name not in {profile.value for profile in Profile}:
            known = ", ".join(profile.value for profile in Profile)
            raise SettingError(
                f"transaction.timeout.recovery.profiles: {text!r} is not NAME:PROFILE with one of {known}"
            )
        read[software] = Profile(name)
    return MappingProxyType(read)
