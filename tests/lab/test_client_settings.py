"""Settings for clients: the address, timings that make tests fast, and whatever a test names."""

from eosin.lab import client_settings

ADDRESS = "127.0.0.1:1234"


def test_settings_of_librdkafka_have_dots_and_short_waits() -> None:
    settings = client_settings.librdkafka(ADDRESS, {"transactional_id": "t", "log_level": 7}, plain=False)
    assert settings["bootstrap.servers"] == ADDRESS
    assert settings["transactional.id"] == "t"
    assert settings["log_level"] == 7
    assert settings["retry.backoff.ms"] == 10


def test_callbacks_keep_their_names() -> None:
    settings = client_settings.librdkafka(ADDRESS, {"error_cb": print, "on_commit": print}, plain=True)
    assert settings == {"bootstrap.servers": ADDRESS, "error_cb": print, "on_commit": print}


def test_keywords_are_those_that_both_python_clients_know() -> None:
    assert client_settings.keywords(ADDRESS, {"group_id": "g"}, plain=False) == {
        "bootstrap_servers": ADDRESS,
        "retry_backoff_ms": 10,
        "metadata_max_age_ms": 1000,
        "group_id": "g",
    }


def test_properties_of_java_are_texts() -> None:
    settings = client_settings.java(ADDRESS, {"enable_auto_commit": False, "max_poll_records": 5}, plain=True)
    assert settings == {"bootstrap.servers": ADDRESS, "enable.auto.commit": "false", "max.poll.records": "5"}


def test_plain_settings_leave_a_client_its_own() -> None:
    assert client_settings.librdkafka(ADDRESS, {}, plain=True) == {"bootstrap.servers": ADDRESS}
    assert client_settings.keywords(ADDRESS, {}, plain=True) == {"bootstrap_servers": ADDRESS}


def test_what_a_test_names_wins() -> None:
    assert client_settings.librdkafka(ADDRESS, {"retry_backoff_ms": 500}, plain=False)["retry.backoff.ms"] == 500
