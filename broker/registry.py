"""The list of APIs that this broker serves. Explicit: nothing is registered by being imported."""

from collections.abc import Mapping
from typing import Final

from eosin.broker.api import Api
from eosin.broker.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
)

APIS: Final[tuple[Api, ...]] = (
    alter_configs.API,
    api_versions.API,
    create_partitions.API,
    create_topics.API,
    delete_records.API,
    delete_topics.API,
    describe_acls.API,
    describe_client_quotas.API,
    describe_cluster.API,
    describe_configs.API,
    describe_log_dirs.API,
    describe_quorum.API,
    describe_topic_partitions.API,
    fetch.API,
    incremental_alter_configs.API,
    list_config_resources.API,
    list_offsets.API,
    list_partition_reassignments.API,
    metadata.API,
    offset_for_leader_epoch.API,
    produce.API,
)

BY_KEY: Final[Mapping[int, Api]] = {int(api.key): api for api in APIS}
assert len(BY_KEY) == len(APIS), "two handlers claim one key"
