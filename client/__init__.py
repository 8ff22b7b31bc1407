"""A small asyncio client on `protocol` alone: connections, retries, administration, a transactional producer, a reader.

It serves the commands, the links between nodes, the pipeline and the tests. `connection` is raw access, one request at
any version; `peer` adds the versions of its node, `client` metadata and retries; `producer`, `consumer` and `admin`
stand on that.
"""
