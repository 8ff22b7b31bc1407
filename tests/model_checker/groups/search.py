"""The search through everything that can happen to a consumer group."""

from typing import Final

from model_checker.groups.rules import check, unfinished
from model_checker.groups.steps import ConsumerSteps
from model_checker.membership.search import searching

search: Final = searching(
    ConsumerSteps(), check=check, unfinished=unfinished, has_something=lambda member: bool(member.owned)
)
"""Two members read something."""
