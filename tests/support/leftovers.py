"""A plugin of pytest: nothing is left of a run.

What tests have started ends with the process that runs them (`descendants`). Each such process has a temporary folder
of its own, which is then removed; the folders of failed tests (`tmp_path`) stay where pytest keeps them.
"""

import os
import tempfile

import descendants
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before anybody asks for a temporary folder, or starts a worker."""
    if not hasattr(config, "workerinput"):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="eosin-")
    os.environ["TMPDIR"] = os.environ["SPARK_LOCAL_DIRS"] = folder
    for name in ("SPARK_SUBMIT_OPTS", "MAVEN_OPTS"):  # Java does not ask TMPDIR
        os.environ[name] = f"{os.environ.get(name, '')} -Djava.io.tmpdir={folder}".strip()
    tempfile.tempdir = None  # it is read again
    descendants.end_with_me(folder)
