"""HYPOTHESIS_PROFILE=many, or EOSIN_FUZZ_EXAMPLES=1000: very many messages through every codec, drawn at random.

Else the property tests of this room draw a few, and the same in each run (`proof/properties.py`).
"""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("EOSIN_FUZZ_EXAMPLES", 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "many" else 0))

if EXAMPLES:
    settings.register_profile(
        "many",
        derandomize=False,
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=list(HealthCheck),
        database=None,
        print_blob=True,
    )
    settings.load_profile("many")
