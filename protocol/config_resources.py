"""`ConfigResourceType`: what has settings."""

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """Kinds of resources that have settings, by their number on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
