"""A small asyncio client on `protocol` alone: connections, retries, administration, a transactional producer, a reader.

It serves the commands, the marker path between brokers, the pipeline and the tests. `connection` is raw access, one
request at any version; `client` adds versions, metadata and retries; `producer`, `consumer` and `admin` stand on that.
"""
