"""How many examples the property tests of this room try.

By default a few, so that the room is tested in seconds. EOSIN_FUZZ_EXAMPLES=1000 tries a thousand of each;
HYPOTHESIS_PROFILE=many is a shorthand for that.
"""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("EOSIN_FUZZ_EXAMPLES", 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "many" else 0))

settings.register_profile("quick", deadline=None)
settings.register_profile(
    "many", deadline=None, max_examples=EXAMPLES or 1000, suppress_health_check=list(HealthCheck), database=None
)
settings.load_profile("many" if EXAMPLES else "quick")
