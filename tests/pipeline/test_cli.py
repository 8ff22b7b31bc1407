"""`eosin pipeline` as a command of Eosin's."""

import subprocess
import sys

import pytest

from eosin.broker.__main__ import main


def test_the_command_is_listed_and_tells_its_own_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--help"]) == 0
    assert "usage: eosin pipeline COMMAND" in capsys.readouterr().out


def test_an_unknown_command_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "fly"]) == 2
    assert capsys.readouterr().err.startswith("eosin pipeline: no command 'fly'; there are ")


def test_nothing_of_the_pipeline_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, eosin.broker.__main__ as m; m.main(['--help']);"
        "sys.exit(any(name.startswith(('eosin.pipeline', 'pyspark')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_a_missing_extra_is_one_clear_sentence() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from eosin.pipeline.errors import MissingDependency\n"
        "try:\n    from eosin.pipeline import session\nexcept MissingDependency as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "pyspark is missing: install Eosin with its Spark extra, pip install 'eosin[spark]'\n"


def test_public_names_are_what_they_say_in_whatever_order_they_are_imported() -> None:
    pytest.importorskip("pyspark")
    code = "from eosin.pipeline import TxnSink, session; assert callable(session); assert callable(TxnSink)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
