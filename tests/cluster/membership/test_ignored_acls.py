"""A broker without an authorizer stays out of a cluster with access control entries (cluster.md 7.5)."""

import pytest

from eosin.cluster.membership.ignored_acls import check_acls
from eosin.cluster.quorum.rules.image import ClusterImage
from eosin.protocol.schemas.records.metadata import AccessControlEntryRecord
from eosin.settings.broker import STANDARD_AUTHORIZER, BrokerConfig
from eosin.settings.start_error import StartError

ENTRY = AccessControlEntryRecord(b"1" * 16, 2, "orders", 3, "User:alice", "*", 3, 3)


def test_it_says_what_to_do_and_does_not_start() -> None:
    image = ClusterImage(acls={ENTRY.id: ENTRY})
    with pytest.raises(
        StartError, match=r"access control entries \(1\).*authorizer.class.name.*eosin.ignore.acls=true"
    ):
        check_acls(BrokerConfig(), image)
    check_acls(BrokerConfig(eosin_ignore_acls=True), image)
    check_acls(BrokerConfig(authorizer_class_name=STANDARD_AUTHORIZER), image)


def test_without_entries_nobody_needs_an_authorizer() -> None:
    check_acls(BrokerConfig(), ClusterImage())
