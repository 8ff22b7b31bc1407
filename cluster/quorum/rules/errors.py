"""Reasons why a broker cannot go on following the quorum. Each is final: the broker gets itself fenced and exits."""


class QuorumError(Exception):
    """The broker must stop; the message says why in one sentence."""


class QuorumLost(QuorumError):
    """The quorum is not, or is no longer, the one that this broker belongs to: another cluster id, committed metadata
    that are gone, a broker that is not allowed in (cluster.md 3.2, 3.3 and 3.6.5)."""


class QuorumUnreadable(QuorumError):
    """The metadata log says what this broker does not understand, so that its image would no longer be the cluster's
    (cluster.md 1.8)."""
