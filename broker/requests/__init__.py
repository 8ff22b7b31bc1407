"""Steps of requests that several handlers share, or that are longer than a handler: each is given the services."""
