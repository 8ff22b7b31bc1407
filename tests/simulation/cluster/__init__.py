"""Several brokers in one simulated world, with a controller that is a model. See docs/testing.md."""
