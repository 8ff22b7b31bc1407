"""The share of a core that a page of the console takes: ten thousand ids, scrolled while transactions are committed."""

import tempfile
from pathlib import Path
from typing import Final

from console_browser import chromium
from crowded_console import STEPS, scrolled

from bench.report import Row

GROUP: Final = "A page of the console"
FRAME_CPU_MS: Final = 60
"""The CPU time that it may take for one frame of changes, or one step of scrolling; some 23 were measured."""


def run(quick: bool = False) -> list[Row]:
    """One look at a broker with so many ids. Raises `toolchains.NotHere` without a browser."""
    ids, partitions = (1000, 100) if quick else (10_000, 1000)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        looked = scrolled(browser, Path(folder) / "data", ids=ids, partitions=partitions)
    cost_ms = looked.cpu_ms / (looked.frames + STEPS)
    return [
        Row(
            GROUP,
            f"CPU for each frame of changes and step of scrolling, {ids:,} ids",
            cost_ms,
            "ms",
            budget=FRAME_CPU_MS,
        ),
        Row(GROUP, "frames of changes", looked.frames, ""),
    ]
