"""The search through everything that can happen to a streams group."""

from typing import Final

from model_checker.membership.search import searching
from model_checker.streams.rules import check, unfinished
from model_checker.streams.steps import StreamsSteps

search: Final = searching(
    StreamsSteps(), check=check, unfinished=unfinished, has_something=lambda member: bool(member.owned.active)
)
"""Two members run something."""
