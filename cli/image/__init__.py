"""`eosin serve --environment`: a broker in the place of one of Kafka's container images."""
