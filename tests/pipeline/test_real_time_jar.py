"""The jar of Real-time Mode: the one in a wheel is the one that a session compiles."""

import runpy
import zipfile
from importlib.util import find_spec
from pathlib import Path

import maven
import pytest
from sources import ROOT
from toolchains import build, skipped_without, tool

from eosin.pipeline.realtime.writer_jar import SOURCE, pack

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.spark, pytest.mark.long]


def test_signatures_are_those_of_spark_and_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another signature, the class would ask for a method that there is not, where only the wheel's jar is."""
    with skipped_without():
        compiler, jars = tool("javac", "the jar of Real-time Mode"), maven.jars("spark-kafka")
    monkeypatch.setattr("setuptools.setup", dict)
    runpy.run_path(str(ROOT / "setup.py"))["java_jar"](compiler, tmp_path / "wheel.jar")
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    there = f"{Path(spark.origin).parent / 'jars'}/*:{jars}/*"
    classes = tmp_path / "classes"
    words = [compiler, "--release", "17", "-proc:none", "-nowarn", "-cp", there, "-d", str(classes), str(SOURCE)]
    build(words, "the jar of Real-time Mode")
    pack(classes, tmp_path / "session.jar")
    contents = []
    for name in ("wheel.jar", "session.jar"):
        with zipfile.ZipFile(tmp_path / name) as jar:
            contents.append({each: jar.read(each) for each in jar.namelist()})
    assert contents[0] == contents[1]
    assert "eosin/realtime/TxnWriter.class" in contents[0]
