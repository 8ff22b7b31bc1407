"""Benchmarks: programs that print ratios, never timed tests. `make bench` runs all, `python -m bench NAME` one.

Machines differ and are shared, so every figure that has a reference is measured beside it in the same run, interleaved,
and reported as a ratio.
"""

import sys
from pathlib import Path

# The broker process and its helpers are the ones that the tests use; some of them need the simulation beside them.
_TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(_TESTS / "support"), str(_TESTS)]
