"""Tasks of a Celery application whose broker is Kafka; its results are files."""

import os

from celery import Celery

app = Celery("tasks", broker=os.environ["CELERY_BROKER"], backend=os.environ["CELERY_RESULTS"])


@app.task
def add(one: int, other: int) -> int:
    """Their sum."""
    return one + other
