"""A cluster with access control entries is not served by a broker that would not look at them (cluster.md 7.5)."""

from typing import TYPE_CHECKING

from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ClusterImage
    from eosin.settings.broker import BrokerConfig


def check_acls(config: "BrokerConfig", image: "ClusterImage") -> None:
    """Raises `StartError`: everybody who reaches this broker could do what the entries deny."""
    if config.has_authorizer or config.eosin_ignore_acls or not image.acls:
        return
    raise StartError(
        f"the cluster has access control entries ({len(image.acls)}), and this broker no authorizer to decide by them:"
        " set authorizer.class.name as on the controllers, or say eosin.ignore.acls=true to serve everybody everything"
    )
