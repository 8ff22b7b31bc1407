"""The jar with `TxnWriter`: the one that is part of this wheel, or compiled on first use, and added to a session.

Always true: a jar is named after its content, its source and the version of Java, so a session never takes an old one.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eosin.pipeline.common.errors import MissingDependency
from eosin.pipeline.common.kafka_connector import connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS: Final = "eosin.realtime.TxnWriter"
SOURCE: Final = Path(__file__).parent / "TxnWriter.java"
SHIPPED: Final = Path(__file__).parent / "eosin-realtime.jar"
RELEASE: Final = "17"
"""The oldest Java that Spark 4 runs on."""
_KAFKA_CLASS: Final = "org.apache.kafka.clients.producer.KafkaProducer"
_SOURCE_CLASS: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_DIGITS: Final = 16


def jar_name(source: bytes) -> str:
    """The name of the jar that is compiled from a source."""
    return f"eosin-realtime-{hashlib.sha256(source).hexdigest()[:_DIGITS]}.jar"


def cache_folder() -> Path:
    """The folder for what is compiled once: EOSIN_CACHE, or a folder of this user."""
    named = os.environ.get("EOSIN_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "eosin"


def writer_class(spark: "SparkSession") -> Any:
    """The Java class, after its jar was added to the driver and to executors. Raises MissingDependency."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for needed in (_SOURCE_CLASS, _KAFKA_CLASS):
        if not _has(loader, needed):
            raise MissingDependency(
                "this session lacks Spark's Kafka source, which Real-time Mode reads from: start it with"
                f" spark.jars.packages={connector(spark.version)}"
            )
    if not _has(loader, CLASS):
        jar = SHIPPED if SHIPPED.exists() else compiled(jvm, loader)
        context: Any = spark._jsc
        context.sc().addJar(str(jar))
        if not hasattr(loader, "addURL"):
            raise MissingDependency(f"this session takes no jars while it runs: start it with spark.jars={jar}")
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    return jvm.eosin.realtime.TxnWriter


def compiled(jvm: Any, loader: Any) -> Path:
    """The jar, compiled by the session's own Java unless it was before. Raises MissingDependency without a JDK."""
    source = SOURCE.read_bytes()
    name = jar_name(source)
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="eosin-realtime-"))
    jar = folder / name
    if jar.exists():
        return jar
    compiler = _compiler(str(jvm.java.lang.System.getProperty("java.home")))
    if compiler is None:
        raise MissingDependency(
            "this installation of Eosin has no jar for Real-time Mode, and Spark runs on a Java without a compiler: run"
            f" Spark on a JDK {RELEASE} or later once, or install a wheel that was built where a JDK is"
        )
    urls = [str(each.getPath()) for each in loader.getURLs()]
    path = os.pathsep.join([*urls, str(jvm.java.lang.System.getProperty("java.class.path"))])
    with tempfile.TemporaryDirectory(prefix="eosin-realtime-") as work:
        classes = Path(work) / "classes"
        classes.mkdir()
        words = ["--release", RELEASE, "-proc:none", "-nowarn", "-cp", path, "-d", str(classes), str(SOURCE)]
        done = subprocess.run([compiler, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            first = next(iter(done.stderr.splitlines()), "")
            raise MissingDependency(f"this Spark and its Kafka source do not fit {SOURCE.name}: {first}")
        made = Path(work) / name
        pack(classes, made)
        # Another process may do the same: each moves a whole file to the same place.
        handle, near = tempfile.mkstemp(dir=folder, suffix=".part")
        os.close(handle)
        Path(near).write_bytes(made.read_bytes())
        Path(near).replace(jar)
    return jar


def pack(classes: Path, jar: Path) -> None:
    """Put the classes of a folder into a jar, the same bytes for the same classes."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(classes.rglob("*.class")):
            archive.writestr(
                zipfile.ZipInfo(each.relative_to(classes).as_posix()), each.read_bytes(), zipfile.ZIP_DEFLATED
            )


def _has(loader: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        loader.loadClass(name)
    except Py4JJavaError:
        return False
    return True


def _compiler(home: str) -> str | None:
    """The compiler of the Java that the session runs on, else the one on the PATH."""
    own = Path(home) / "bin" / "javac"
    return str(own) if own.exists() else shutil.which("javac")
