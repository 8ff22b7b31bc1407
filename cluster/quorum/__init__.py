"""Following the metadata log of an Apache Kafka quorum: records, the image they make, and the fetching of them.

Only joined mode imports this package (cluster.md 0, decision D2).
"""
