"""Data directories of brokers for tests, of a cluster `lab-...`. Those on a real disk are marked, so that `serve` and
the lab each refuse the other's."""

from pathlib import Path

from eosin.lab.common.errors import LabError
from eosin.lab.disk.lab_disk import LabDisk
from eosin.protocol.names import uuid_text
from eosin.runtime.chance import SystemChance
from eosin.settings.broker import BrokerConfig
from eosin.storage.disk.meta_properties import (
    FILE_NAME,
    DirectoryKind,
    MetaProperties,
    as_lab_directory,
    is_lab_directory,
)


def new_cluster_id() -> str:
    """A cluster id by which everybody sees that its broker is one for tests."""
    return f"lab-{uuid_text(SystemChance().uuid())}"


def prepare_directory(path: str, config: BrokerConfig) -> None:
    """Make or check the data directory of a broker for tests. Raises LabError for one that is somebody else's."""
    directory, properties = Path(path), Path(path, FILE_NAME)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if properties.exists():
            if not is_lab_directory(properties.read_bytes()):
                raise LabError(
                    f"{path} is the data directory of a broker that is not for tests: start from a copy of it, with"
                    " snapshot=Snapshot.from_directory(path)"
                )
            return
        if any(directory.iterdir()):
            raise LabError(f"{path} is not empty, and no data directory of a broker for tests: name a new one")
        properties.write_bytes(as_lab_directory(_new_properties(config)))
    except OSError as error:
        raise LabError(f"cannot use {error.filename or path}: {error.strerror}") from None


def prepare_disk(disk: LabDisk, path: str, config: BrokerConfig) -> None:
    """Make the data directory on a disk of the lab, unless it is there."""
    properties = f"{path}/{FILE_NAME}"
    if disk.size(properties) is None:
        disk.make_directory(path)
        disk.put(properties, _new_properties(config))


def _new_properties(config: BrokerConfig) -> bytes:
    return MetaProperties(
        cluster_id=config.eosin_cluster_id or new_cluster_id(),
        node_id=config.node_id,
        directory_id=uuid_text(SystemChance().uuid()),
        kind=DirectoryKind.STANDALONE,
    ).encode()
