"""The controller that Eosin brokers join, as docs/cluster.md starts it, before any of them is there."""

import re

from kraft_node import QuorumController

from eosin.model.features import DEAD_LETTERS_LEVEL

FORMATTED_BY_TOOL = True
"""The lines of the page run here each time. Other modules have copies of what they make."""


def test_a_controller_formatted_by_the_page_leads_its_quorum(controller: QuorumController) -> None:
    status = controller.ask("kafka-metadata-quorum.sh", "describe", "--status")
    assert controller.cluster_id in status
    assert re.search(rf"^LeaderId:\s+{controller.node_id}$", status, re.MULTILINE)


def test_the_features_of_the_page_are_those_that_eosin_can_join(controller: QuorumController) -> None:
    lines = controller.ask("kafka-features.sh", "describe").splitlines()
    levels = {line.split()[1]: line.split("FinalizedVersionLevel: ")[1].split()[0] for line in lines}
    assert levels["metadata.version"] == "4.4-IV2"
    assert levels["transaction.version"] == "2"
    assert levels["eligible.leader.replicas.version"] == "1"
    assert levels["group.version"] == "1"
    assert levels["share.version"] == str(DEAD_LETTERS_LEVEL)
    assert levels["streams.version"] == "1"
