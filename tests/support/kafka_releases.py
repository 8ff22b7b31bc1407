"""The releases of Apache Kafka that tests ask the same as Eosin, and whose nodes make clusters with it."""

from typing import Final

REFERENCE: Final = "4.4.0"
"""The one that conformance and benchmarks compare with, and that all else starts unless it says otherwise."""
SECOND: Final = "4.3.1"
"""The one before: clusters of it are joined, and upgraded to the reference under running brokers."""
