"""The container around a broker: mounted files of settings, the volume for the data, and the data directory's owner."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eosin.settings.environment.directories import data_directory
from eosin.settings.environment.translation import Translation, translate
from eosin.settings.settings import SettingError
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES

ROOT: Final = "EOSIN_IMAGE_ROOT"
"""Put in front of the paths below, for tests."""
_OVER: Final = "/mnt/shared/config/server.properties"
"""Apache's: variables count more than it."""
_ALONE: Final = ("/bitnami/kafka/config/server.properties", "/opt/bitnami/kafka/config/server.properties")
"""Bitnami's: with it, variables do not count."""
_MOUNTS: Final = "/proc/self/mounts"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings that a container brings along."""

    translation: Translation
    config_file: str | None
    """A mounted file of settings."""
    data_dir: str
    """The place of the data if no setting says more."""


def surroundings(variables: Mapping[str, str], *, config_file: str | None) -> Surroundings:
    """Read the container. `config_file`: the one that the command line names. Raises SettingError."""
    root = variables.get(ROOT, "")
    counted, file = variables, config_file
    if file is None:
        alone = next((each for each in _ALONE if os.path.isfile(root + each)), None)
        if alone is not None:
            file, counted = root + alone, {}
        elif os.path.isfile(root + _OVER):
            file = root + _OVER
    return Surroundings(translate(counted), file, root + data_directory(_mounts(variables)))


def prepare(data_dir: str) -> None:
    """Make the data directory its owner's alone, as far as it is ours: images and engines make volumes that everybody
    may write. Raises SettingError if this process cannot write there."""
    path = Path(data_dir)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise SettingError(_unusable(data_dir, error.strerror or str(error))) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise SettingError(_unusable(data_dir, f"it belongs to uid {found.st_uid}"))


def kept_cluster_id(data_dir: str) -> str | None:
    """The id of the cluster that a directory belongs to; None for an empty one."""
    from eosin.storage.disk.interfaces import UnusableDirectory
    from eosin.storage.disk.meta_properties import MetaProperties

    try:
        return MetaProperties.decode((Path(data_dir) / META_PROPERTIES).read_bytes()).cluster_id
    except (OSError, UnusableDirectory):  # the start will say what is wrong with it
        return None


def _unusable(data_dir: str, why: str) -> str:
    me = os.geteuid()
    return (
        f"cannot write to the data directory {data_dir}: {why}, and this process is uid {me}; chown {me} it on the"
        f" host, or run the container as its owner (user: in a compose file, --user)"
    )


def _mounts(variables: Mapping[str, str]) -> str:
    try:
        return Path(variables.get(ROOT, "") + _MOUNTS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
