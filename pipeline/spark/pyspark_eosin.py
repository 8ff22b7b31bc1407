"""Installed as the module `pyspark_eosin`, by whose name Spark finds `format("eosin")` in any session.

Spark 4 imports every installed module `pyspark_*` when a session first needs a data source in Python, and knows its
`DefaultSource` from then on. Always true: this import raises nothing, since an error would take every other data source
in Python away from the session.
"""

import contextlib

from eosin.pipeline.common.errors import MissingDependency

# An installation without the Spark extra: Spark does not find the format, and says so.
with contextlib.suppress(MissingDependency):
    from eosin.pipeline.format.data_source import Eosin as DefaultSource

__all__ = ["DefaultSource"]
