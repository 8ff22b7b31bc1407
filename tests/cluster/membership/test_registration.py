"""What a broker registers with, and the sentences for refusals that last."""

import pytest

from eosin.cluster.membership.rules.registration import (
    AdvertisedListener,
    BrokerIdentity,
    lasting_refusal,
    registration_request,
)
from eosin.model.features import DEAD_LETTERS_LEVEL, SUPPORTED_JOINED
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.broker_registration import Feature, Listener

DIRECTORY = bytes(15) + b"\xaa"
IDENTITY = BrokerIdentity(
    node_id=3,
    cluster_id="abcdefghijklmnopqrstuw",
    incarnation_id=bytes(15) + b"\xbb",
    directory_id=DIRECTORY,
    listeners=(AdvertisedListener("PLAINTEXT", "b3", 9092), AdvertisedListener("inside", "10.0.0.3", 9094)),
    rack="r1",
    previous_broker_epoch=41,
)
DEFAULTS_OF_4_4 = {
    "metadata.version": 33,
    "kraft.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
}


def sentence(error: ErrorCode, levels: dict[str, int] | None = None) -> str | None:
    return lasting_refusal(
        error, node_id=3, cluster_id=IDENTITY.cluster_id, levels=levels or {}, controllers="one:9093"
    )


def test_a_broker_registers_all_that_the_quorum_has_to_know() -> None:
    request = registration_request(IDENTITY)
    assert (request.broker_id, request.cluster_id, request.rack) == (3, IDENTITY.cluster_id, "r1")
    assert (request.incarnation_id, request.log_dirs) == (IDENTITY.incarnation_id, (DIRECTORY,))
    assert request.listeners == (Listener("PLAINTEXT", "b3", 9092, 0), Listener("INSIDE", "10.0.0.3", 9094, 0))
    assert request.previous_broker_epoch == 41
    assert not request.is_migrating_zk_broker


def test_every_feature_is_named_with_its_range() -> None:
    features = {each.name: each for each in registration_request(IDENTITY).features}
    assert features["metadata.version"] == Feature("metadata.version", 25, 33)
    assert features["transaction.version"] == Feature("transaction.version", 0, 2)
    assert features["eosin.version"] == Feature("eosin.version", 0, 2)
    assert features["group.version"] == Feature("group.version", 0, 1)
    assert features["share.version"] == Feature("share.version", 0, DEAD_LETTERS_LEVEL)
    assert features["streams.version"] == Feature("streams.version", 0, 1)
    assert set(features) == set(SUPPORTED_JOINED)


def test_only_a_cordoned_directory_is_told_as_one() -> None:
    assert IDENTITY.cordoned_log_dirs == ()
    cordoned = BrokerIdentity(
        node_id=3, cluster_id="", incarnation_id=b"", directory_id=DIRECTORY, listeners=(), is_cordoned=True
    )
    assert cordoned.cordoned_log_dirs == (DIRECTORY,)


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        (
            {"group.version": 2, "streams.version": 2},
            "the cluster has group.version at level 2 (Eosin supports 0 to 1) and streams.version at level 2 (Eosin"
            " supports 0 to 1): lower them with kafka-features.sh --bootstrap-controller one:9093 downgrade --feature"
            " group.version=1 --feature streams.version=1, or format the controllers of a new cluster with these"
            " options",
        ),
        (
            {"group.version": 2},
            "the cluster has group.version at level 2 (Eosin supports 0 to 1): lower it with"
            " kafka-features.sh --bootstrap-controller one:9093 downgrade --feature group.version=1, or format the"
            " controllers of a new cluster with this option",
        ),
        (
            {"queue.version": 2},
            "the cluster has queue.version at level 2 (Eosin supports 0): lower it with"
            " kafka-features.sh --bootstrap-controller one:9093 downgrade --feature queue.version=0, or format the"
            " controllers of a new cluster with this option",
        ),
        (
            {"metadata.version": 24},
            "the cluster has metadata.version at level 24 (Eosin supports 25 to 33): raise it with"
            " kafka-features.sh --bootstrap-controller one:9093 upgrade --feature metadata.version=25",
        ),
        (
            {"metadata.version": 34},
            "the cluster has metadata.version at level 34 (Eosin supports 25 to 33): a later version of Eosin"
            " is needed",
        ),
        (
            {"transaction.version": 3},
            "the cluster has transaction.version at level 3 (Eosin supports 0 to 2): lower it with"
            " kafka-features.sh --bootstrap-controller one:9093 downgrade --feature transaction.version=2, or format"
            " the controllers of a new cluster with this option",
        ),
        (
            {},
            "the cluster has finalized a feature at a level that Eosin does not support: see kafka-features.sh"
            " describe",
        ),
    ],
)
def test_an_unsupported_feature_is_named_with_its_level_and_our_range(levels: dict[str, int], told: str) -> None:
    assert sentence(ErrorCode.UNSUPPORTED_VERSION, {**DEFAULTS_OF_4_4, **levels}) == told


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "the controllers are not those of cluster abcdefghijklmnopqrstuw"),
        (ErrorCode.INVALID_REGISTRATION, "registration of broker 3 as invalid"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "needs CLUSTER_ACTION"),
        (ErrorCode.BROKER_ID_NOT_REGISTERED, "not part of a migration"),
    ],
)
def test_a_refusal_that_lasts_is_one_sentence(error: ErrorCode, part: str) -> None:
    told = sentence(error)
    assert told is not None
    assert part in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_other_errors_may_pass(error: ErrorCode) -> None:
    assert sentence(error) is None
