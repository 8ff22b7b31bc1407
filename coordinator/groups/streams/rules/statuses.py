"""`statuses_of`: news for a member beside its tasks (streams-groups.md 7). Pure."""

from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.rules.events import Status
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember

FIRST_VERSION_WITH_TAGS = 1


def statuses_of(
    group: StreamsGroup, member: StreamsMember, config: StreamsGroupConfig, *, version: int
) -> dict[Status, str]:
    """Everything that a member is to hear, each with a sentence. `version` is that of its request."""
    found: dict[Status, str] = {}
    if group.topology is not None and member.topology_epoch < group.topology.epoch:
        text = f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch"
        text += f" {group.topology.epoch}."
        found[Status.STALE_TOPOLOGY] = text
    if group.configured is not None and group.configured.status is not None:
        found[Status(group.configured.status)] = group.configured.detail
    if group.shutdown_by is not None:
        text = f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the"
        found[Status.SHUTDOWN_APPLICATION] = f"{text} entire application."
    if group.is_delayed or group.epoch > group.assignment_epoch:
        what = "initial rebalance delay" if group.is_delayed else "assignment interval"
        found[Status.ASSIGNMENT_DELAYED] = f"Assignment delayed due to the configured {what}."
    if version >= FIRST_VERSION_WITH_TAGS:
        known = {key for key, _ in member.tags}
        missing = [tag for tag in config.rack_aware_assignment_tags if tag not in known]
        if missing:
            names = ", ".join(missing)
            text = f"streams.rack.aware.assignment.tags names client tags that the member does not have: {names}."
            found[Status.MISSING_CLIENT_TAGS] = text + " Set client.tag. and the name of each in the application."
    return found
