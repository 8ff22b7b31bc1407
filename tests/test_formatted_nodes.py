"""Copies of what Apache Kafka's storage tool has formatted: a controller is its own voter in them."""

from formatted_nodes import TEMPLATE, Identity, new_id, with_voter
from quorum_log import LISTENER, snapshot_of

from eosin.cluster.quorum.rules.batches import control_records, whole_batches
from eosin.protocol.names import uuid_from_text
from eosin.protocol.schemas.records import quorum
from eosin.protocol.types import Message


def voter(identity: Identity, directory_id: str) -> quorum.VotersRecord:
    endpoint = quorum.VoterEndpoint(LISTENER, "127.0.0.1", identity.port)
    made = quorum.QuorumVoter(identity.node_id, uuid_from_text(directory_id), (endpoint,))
    return quorum.VotersRecord((made,))


def controls(snapshot: bytes) -> list[Message]:
    """All control records; each batch has the right checksum."""
    return [each.record for batch in whole_batches(snapshot) if batch.is_control for each in control_records(batch)]


def test_the_voter_of_a_copy_is_the_node_that_has_it() -> None:
    own, of_template, own_id = Identity(new_id(), 1000, 23320), new_id(), new_id()
    template = snapshot_of([], controls=[voter(TEMPLATE, of_template)])
    copied = with_voter(template, of_template, own, own_id)
    assert controls(copied) == controls(snapshot_of([], controls=[voter(own, own_id)]))
    assert len(copied) == len(template)


def test_a_snapshot_without_voters_is_copied_as_it_is() -> None:
    template = snapshot_of([])
    assert with_voter(template, new_id(), Identity(new_id(), 1000, 23320), new_id()) == template
