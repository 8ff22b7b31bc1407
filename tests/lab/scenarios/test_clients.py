"""The rows of client libraries: which of them a report quotes."""

from eosin.lab.scenarios.catalogue import SCENARIOS
from eosin.lab.scenarios.clients import CLIENTS, EXPECTED, client_of, rows_for


def test_clients_are_known_by_what_they_say_of_themselves() -> None:
    assert client_of("confluent-kafka-python 2.16.1-rdkafka-2.16.0") == "librdkafka"
    assert client_of("librdkafka 2.6.0") == "librdkafka"
    assert client_of("apache-kafka-java 4.4.0") == "Java 4.x"
    assert client_of("apache-kafka-java 3.9.2") == "Java 2.5 to 3.9"
    assert client_of("kgo v1.22.2") == "franz-go"
    assert client_of("my-own 1") is None


def test_a_report_quotes_the_rows_of_the_clients_that_were_there() -> None:
    assert rows_for("idle-week", ["librdkafka 2.6.0", "rdkafka 1", "my-own 1"]) == ("librdkafka: abort, and go on",)
    assert rows_for("throttled", ["librdkafka 2.6.0"]) == ()


def test_every_row_is_about_a_scenario_and_has_every_client() -> None:
    assert set(EXPECTED) <= {each.name for each in SCENARIOS}
    assert all(tuple(row) == CLIENTS for row in EXPECTED.values())
