"""Hostile peers beside honest ones: all cases of the specification's table of budgets, against a real broker process.

`python -m hostile` (`make hostile`) measures; `tests/broker/security/test_hostile_cases.py` is its short form.
"""
