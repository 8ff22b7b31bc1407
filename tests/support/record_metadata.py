"""Records the metadata records that Apache Kafka's own classes write: the golden bytes of `tests/protocol/golden`.

    .venv/bin/python tests/support/record_metadata.py

Needs `java` 17 with its compiler; the jars come from Maven once (`maven.py`).
"""

import json
import subprocess
from pathlib import Path
from typing import Final

import maven
from apache_kafka import PROJECT

PROGRAM: Final = Path(__file__).parent / "java" / "metadata-records" / "MetadataRecords.java"
FOLDER: Final = Path(__file__).resolve().parents[1] / "protocol" / "golden" / "metadata-records"


def record() -> Path:
    """Write the file of the release that the tests use; return its path."""
    command = [maven.java("Apache Kafka's classes"), "-cp", f"{maven.jars(PROJECT)}/*", str(PROGRAM)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    records = []
    for line in printed.splitlines():
        name, version, data, fields = line.split("\t")
        records.append({"record": name, "version": int(version), "bytes": data, "fields": json.loads(fields)})
    release = maven.version(PROJECT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"apache-kafka-{release}.json"
    text = {"release": release, "recorded_by": f"tests/support/{Path(__file__).name}", "records": records}
    path.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n")
    return path


if __name__ == "__main__":
    print(record())
