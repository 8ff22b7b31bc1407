"""The log of a partition as developers see it in a browser, while real clients write (console.md 5.3)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from console_browser import Watched, axe, chromium, findings
from playwright.sync_api import Browser, expect
from toolchains import skipped_without
from waiting import HANG_S

pytestmark = [pytest.mark.process, pytest.mark.slow]
expect.set_options(timeout=HANG_S * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with skipped_without(), chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("console") / "data", durability="memory")
    process.options = ("--console", "--http", "0")
    process.start()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def watched(browser: Browser, broker: BrokerProcess) -> Iterator[Watched]:
    found = Watched(browser, broker.http_address)
    yield found
    found.close()


def producer(
    broker: BrokerProcess, transactional_id: str = "", *, linger_ms: int = 5, client_id: str = "till"
) -> Producer:
    settings: dict[str, str | int] = {"bootstrap.servers": broker.address, "log_level": 0}
    settings |= {"linger.ms": linger_ms, "client.id": client_id}
    if transactional_id:
        settings["transactional.id"] = transactional_id
    made = Producer(settings)
    if transactional_id:
        made.init_transactions(HANG_S)
    return made


def write(made: Producer, topic: str, values: list[bytes]) -> None:
    for value in values:
        made.produce(topic, value, partition=0)
    assert made.flush(HANG_S) == 0


def written(broker: BrokerProcess, topic: str, shop_id: str) -> Producer:
    """A log with records of no transaction, a committed, an aborted and an open one. The producer of the open one."""
    write(producer(broker), topic, [b"first"])
    shop = producer(broker, shop_id)
    for ends in (shop.commit_transaction, shop.abort_transaction):
        shop.begin_transaction()
        write(shop, topic, [b"book", b"pen"])
        ends(HANG_S)
    shop.begin_transaction()
    write(shop, topic, [b"ink"])
    return shop


def test_the_log_of_a_partition_is_seen_batch_by_batch_and_follows_its_end(
    watched: Watched, broker: BrokerProcess
) -> None:
    shop = written(broker, "ledger", "ledger-shop")
    page = watched.open("partitions/ledger-0")
    page.get_by_role("link", name="The log, batch by batch").click()
    expect(page.locator("h1")).to_have_text("Log of ledger-0")
    rows = page.get_by_label("Log of ledger-0").locator("tbody tr[data-index]")
    offsets = ["0", "1 - 2", "3", "4 - 5", "6", "7", "7"]
    expect(rows.locator("td:first-child")).to_have_text(offsets)
    what = rows.locator("td:nth-child(2)")
    expect(what.nth(1)).to_contain_text("committed")
    expect(what.nth(2)).to_contain_text("committed marker, coordinator epoch")
    expect(what.nth(3)).to_contain_text("aborted")
    expect(what.nth(4)).to_contain_text("aborted marker")
    expect(what.nth(5)).to_contain_text("LSO: readers of committed records get so far")
    expect(what.nth(6)).to_contain_text("open")
    expect(rows.nth(1)).to_contain_text("ledger-shop")
    expect(page.locator("#stands")).to_contain_text("ledger-shop from offset 7")

    shop.commit_transaction(HANG_S)
    expect(rows.locator("td:first-child")).to_have_text([*offsets[:5], "7", "8"])
    expect(what.nth(5)).to_contain_text("committed")
    expect(page.locator("#stands")).to_contain_text("LSO 9")


def test_a_log_shows_how_far_groups_have_committed(watched: Watched, broker: BrokerProcess) -> None:
    write(producer(broker), "pinned", [b"one", b"two", b"three"])
    page = watched.open("log/pinned-0")
    picture = page.locator(".picture canvas")
    expect(picture).to_be_visible()
    assert page.locator("#groups").count() == 0
    height = picture.evaluate("canvas => canvas.height")
    committer = Consumer({"bootstrap.servers": broker.address, "group.id": "pin-readers", "log_level": 0})
    committer.commit(offsets=[Position("pinned", 0, 2)], asynchronous=False)
    expect(page.locator("#groups")).to_have_text("Groups have committed: pin-readers up to 2.")
    assert picture.evaluate("canvas => canvas.height") > height, "it has a line for the pins"
    committer.close()


def test_an_open_transaction_names_its_other_partitions_in_a_log(watched: Watched, broker: BrokerProcess) -> None:
    shop = producer(broker, "spread-shop")
    shop.begin_transaction()
    for topic in ("spread-a", "spread-b"):
        write(shop, topic, [b"book"])
    page = watched.open("log/spread-a-0")
    page.locator(".picture").focus()
    page.keyboard.press("]")
    expect(page.locator(".told")).to_have_text(
        "Transaction of spread-shop, open: 1 batch from offset 0. It is in spread-b-0, too."
    )
    shop.abort_transaction(HANG_S)
    expect(page.locator(".told")).not_to_contain_text("too.")


def test_the_picture_of_a_log_is_walked_by_keyboard_alone(watched: Watched, broker: BrokerProcess) -> None:
    shop = written(broker, "walked", "walked-shop")
    page = watched.open("log/walked-0")
    picture = page.locator(".picture")
    picture.focus()
    told = page.locator(".told")
    page.keyboard.press("]")
    expect(told).to_contain_text("Transaction of walked-shop, committed: 1 batch from offset 1 to its marker at 3.")
    page.keyboard.press("]")
    expect(told).to_contain_text("aborted")
    page.keyboard.press("[")
    expect(told).to_contain_text("committed")
    page.keyboard.press("t")
    expect(page.locator("#log-table a").first).to_be_focused()
    page.keyboard.press("End")
    picture.focus()
    page.keyboard.press("+")
    expect(page.get_by_role("img", name="Offsets 2 to")).to_be_visible()
    page.keyboard.press("Home")
    expect(page.get_by_role("img", name="Offsets 0 to")).to_be_visible()
    page.keyboard.press("g")
    expect(page.locator("#go-to")).to_be_focused()
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    expect(page.get_by_role("img", name="Offsets 7 to")).to_be_visible()
    picture.focus()
    page.keyboard.press("]")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("walked-shop")
    shop.abort_transaction(HANG_S)


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>&lt;\u202e{{7*7}}"


def test_records_that_are_markup_are_shown_as_they_are(watched: Watched, broker: BrokerProcess) -> None:
    plain = producer(broker)
    plain.produce("hostile", HOSTILE.encode(), key=HOSTILE.encode(), partition=0, headers=[(HOSTILE, HOSTILE.encode())])
    plain.produce("hostile", b'{"till": [1, 2]}', partition=0)
    plain.produce("hostile", b"\xff\xfe\x00<b>", partition=0)
    assert plain.flush(HANG_S) == 0
    page = watched.open("partitions/hostile-0")
    page.get_by_role("link", name="Records", exact=True).click()
    rows = page.get_by_label("Records of hostile-0").locator("tbody tr[data-index]")
    expect(rows.nth(0).locator("td:nth-child(5)")).to_have_text(HOSTILE)
    expect(rows.nth(0).locator("td:nth-child(6)")).to_have_text(HOSTILE)
    expect(rows.nth(2).locator("td:nth-child(6)")).to_have_text("0xfffe003c623e")
    rows.nth(0).get_by_role("link", name="0", exact=True).click()
    expect(page.locator("h1")).to_have_text("Record 0 of hostile-0")
    expect(page.get_by_label("Value", exact=True)).to_have_text(HOSTILE)
    expect(page.locator("table.plain td")).to_have_text([HOSTILE, HOSTILE])
    page.locator("select[name=format]").select_option("hex")
    expect(page.get_by_label("Value", exact=True)).to_contain_text("000000  3c 73 63 72 69 70 74 3e")
    watched.open("record/hostile-0/1")
    page.locator("select[name=format]").select_option("json")
    expect(page.get_by_label("Value", exact=True)).to_have_text('{\n  "till": [\n    1,\n    2\n  ]\n}')
    assert page.locator("script:not([src]), main img").count() == 0


def test_records_are_looked_at_with_the_eyes_of_each_isolation(watched: Watched, broker: BrokerProcess) -> None:
    shop = written(broker, "eyes", "eyes-shop")
    page = watched.open("records/eyes-0")
    rows = page.get_by_label("Records of eyes-0").locator("tbody tr[data-index]")
    expect(rows.locator("td:first-child")).to_have_text(["0", "1", "2"])
    expect(page.locator("#looked")).to_contain_text("Committed readers stand at 7; the log ends at 8.")
    page.locator("select[name=isolation]").select_option("uncommitted")
    expect(rows.locator("td:first-child")).to_have_text(["0", "1", "2", "4", "5", "7"])
    expect(rows.nth(3)).to_contain_text("aborted")
    page.locator("select[name=isolation]").select_option("everything")
    expect(rows).to_have_count(8)
    expect(rows.nth(3)).to_contain_text("COMMIT marker")
    page.get_by_label("Value contains").fill("in")
    page.keyboard.press("Enter")
    expect(rows.locator("td:first-child")).to_have_text(["3", "6", "7"])
    page.locator("select[name=isolation]").select_option("committed")
    shop.abort_transaction(HANG_S)


def test_an_open_transaction_is_ended_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    with skipped_without():
        source = axe()
    (tmp_path / "token").write_text("correct-horse")
    settings = {"eosin.http.token.file": str(tmp_path / "token")}
    process = BrokerProcess(tmp_path / "data", durability="memory", settings=settings)
    process.options = ("--console", "--console-actions", "--http", "0")
    process.start()
    try:
        shop = producer(process, "stuck-shop")
        shop.begin_transaction()
        write(shop, "orders", [b"book"])
        watched = Watched(browser, process.http_address)
        page = watched.page
        page.goto(f"http://{watched.http}/#token=correct-horse")
        page.locator("#connection.live").wait_for()
        page = watched.open("transactions/stuck-shop")
        page.locator(".action summary").focus()
        page.keyboard.press("Enter")
        assert findings(page, source) == []
        page.keyboard.press("Tab")
        page.keyboard.type("stuck-shop")
        page.keyboard.press("Enter")  # nothing destructive happens by Enter in a field
        page.wait_for_timeout(300)
        expect(page.locator(".state")).to_have_text("Ongoing")
        page.keyboard.press("Tab")
        page.keyboard.type("correct-horse")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".state")).not_to_have_text("Ongoing")
        expect(page.locator("#sentence")).to_contain_text("stuck-shop")
        watched.open("log/orders-0")
        expect(page.locator("#log-table tbody tr[data-index]").nth(1)).to_contain_text("aborted marker")
        watched.close()
        with pytest.raises(KafkaException):
            shop.commit_transaction(HANG_S)
    finally:
        process.stop()


def test_connections_and_metrics_have_pages(watched: Watched, broker: BrokerProcess) -> None:
    name = "<b>till</b>"
    client = producer(broker, client_id=name)
    write(client, "connected", [b"x"])
    page = watched.open("connections")
    page.get_by_label("Find").fill(name)
    rows = page.get_by_label("Connections", exact=True).locator("tbody tr[data-index]")
    expect(rows.first.locator("td").nth(1)).to_have_text(name)
    expect(rows.first.locator("td").nth(2)).to_contain_text("confluent-kafka-python")
    expect(rows.first.locator("td").nth(5)).to_have_text("User:ANONYMOUS")
    expect(page.locator("#software")).to_contain_text("By library: confluent-kafka-python")
    page.get_by_role("link", name="Metrics", exact=True).click()
    page.get_by_label("Find").fill("eosin_transactions_open")
    expect(page.get_by_label("Metrics", exact=True).locator("tbody tr[data-index]")).to_have_count(1)
    expect(page.locator(".spark polyline")).to_have_count(1)
    del client


@pytest.mark.full
def test_a_topic_of_a_million_records_is_looked_at_like_any_other(watched: Watched, broker: BrokerProcess) -> None:
    plain = producer(broker, linger_ms=20)
    for number in range(1_000_000):
        plain.produce("million", b"%d" % number, partition=0)
        if number % 50_000 == 49_999:
            assert plain.flush(HANG_S) == 0
    page = watched.open("log/million-0")
    expect(page.locator("#stands")).to_contain_text("Log end 1,000,000")
    page.get_by_role("button", name="Whole log").click()
    expect(page.get_by_role("img", name="Offsets 0 to 999,999")).to_be_visible()
    page.locator("#log-table tbody tr[data-index]").first.wait_for()
    assert page.locator("#log-table tbody tr[data-index]").count() < 60
    page = watched.open("records/million-0/765432")
    first = page.get_by_label("Records of million-0").locator("tbody tr[data-index]").first
    expect(first.locator("td").nth(5)).to_have_text("765432")
    page.get_by_role("button", name="End", exact=True).click()
    expect(page.get_by_label("Records of million-0")).to_contain_text("999999")
    page.get_by_label("Value contains").fill("12345")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#looked")).to_contain_text("Looked at 10,000 records, offsets 0 to 9,999; 0 records found.")
    page.get_by_role("button", name="Later").click()
    expect(first.locator("td").nth(5)).to_have_text("12345")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_the_pages_of_logs_are_accessible_in_light_and_in_dark(
    browser: Browser, broker: BrokerProcess, scheme: str
) -> None:
    with skipped_without():
        source = axe()
    shop = written(broker, f"seen-{scheme}", f"seen-{scheme}")
    watched = Watched(browser, broker.http_address, color_scheme=scheme)
    found = {}
    name = f"seen-{scheme}-0"
    for place in (f"log/{name}", f"records/{name}", f"record/{name}/0", "connections", "metrics"):
        page = watched.open(place)
        page.locator(".table tbody a, pre.content").first.wait_for()
        found[place] = findings(page, source)
        page.set_viewport_size({"width": 360, "height": 800})
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, place
        page.set_viewport_size({"width": 1280, "height": 900})
    shop.abort_transaction(HANG_S)
    watched.close()
    assert not any(found.values()), found
