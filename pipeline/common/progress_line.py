"""How progress is told: a line for a person, or a JSON object in a line for a program.

Always true: both kinds of pipelines spell the same thing alike, tasks that had timed out included.
"""

import json
from collections.abc import Mapping
from typing import Any

from eosin.pipeline.common.task_timeouts import skipped_part


def line_of(*facts: tuple[str, object], skipped: Mapping[str, int]) -> str:
    """Names and values (a dash for None), then the tasks that were left out, if any, with the ms they had left."""
    parts = [f"{name} {'-' if value is None else value}" for name, value in facts]
    return " ".join(filter(None, [*parts, skipped_part(skipped)]))


def json_of(facts: Mapping[str, Any], *, skipped: Mapping[str, int], skips: Mapping[str, int]) -> str:
    """The facts, the tasks that were left out with the ms they had left, and how often each was so far."""
    return json.dumps({**facts, "skipped_tasks": dict(skipped), "task_skips": dict(skips)})
