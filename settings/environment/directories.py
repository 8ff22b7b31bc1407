"""The data directory of an image where no setting names one: that of the volume that is mounted.

Otherwise a volume at the place of another image would stay empty, and the data would go with the container.
"""

from typing import Final

OWN: Final = "/var/lib/eosin"
_PLACES: Final = (
    ("/var/lib/kafka/data", "/var/lib/kafka/data"),
    ("/var/lib/kafka", "/var/lib/kafka/data"),
    ("/bitnami/kafka/data", "/bitnami/kafka/data"),
    ("/bitnami/kafka", "/bitnami/kafka/data"),
    ("/bitnami", "/bitnami/kafka/data"),
    ("/kafka", "/kafka"),
    ("/tmp/kraft-combined-logs", "/tmp/kraft-combined-logs"),
    ("/tmp/kafka-logs", "/tmp/kafka-logs"),
    (OWN, OWN),
)
"""The places where images keep data, and the data directory below; the first that is mounted counts."""


def data_directory(mounts: str) -> str:
    """The data directory by the text of /proc/self/mounts."""
    mounted = {words[1] for words in (line.split() for line in mounts.splitlines()) if len(words) > 1}
    return next((directory for place, directory in _PLACES if place in mounted), OWN)
