"""Topics in a browser: what the pages show, and what an operator does there (console.md 5.2 and 5.5)."""

from collections.abc import Iterator

import pytest
from broker_process import BrokerProcess
from cluster_console import console_of
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from console_browser import Watched, axe, chromium, findings
from playwright.sync_api import Browser, Locator, Page, expect
from toolchains import skipped_without
from waiting import HANG_S

pytestmark = [pytest.mark.process, pytest.mark.slow]
expect.set_options(timeout=HANG_S * 1000)
TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with skipped_without(), chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("console")
    (folder / "token").write_text(TOKEN)
    settings = {"eosin.http.token.file": str(folder / "token")}
    process = BrokerProcess(folder / "data", durability="memory", settings=settings)
    process.options = ("--console", "--console-actions", "--http", "0")
    process.start()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def watched(browser: Browser, broker: BrokerProcess) -> Iterator[Watched]:
    found = signed_in(browser, broker)
    yield found
    found.close()


def signed_in(browser: Browser, broker: BrokerProcess, **how: str) -> Watched:
    found = Watched(browser, broker.http_address, **how)
    found.page.goto(f"http://{found.http}/#token={TOKEN}")
    found.page.locator("#connection.live").wait_for()
    return found


def shop(broker: BrokerProcess, name: str, topic: str) -> Producer:
    """A producer that has committed a record in the topic, and has another transaction open there."""
    made = Producer({"bootstrap.servers": broker.address, "transactional.id": name, "log_level": 0})
    made.init_transactions(HANG_S)
    for number in range(2):
        made.begin_transaction()
        made.produce(topic, b"book", partition=0)
        assert made.flush(HANG_S) == 0
        if not number:
            made.commit_transaction(HANG_S)
    return made


def action(page: Page, title: str) -> Locator:
    """The form of an action, opened, with the token in it."""
    found = page.locator("details.action").filter(has=page.locator("summary", has_text=title))
    found.locator("summary").click()
    found.get_by_label("Token").fill(TOKEN)
    return found


def test_one_field_finds_ids_topics_members_and_brokers_from_the_keyboard(
    watched: Watched, broker: BrokerProcess
) -> None:
    held = shop(broker, "found-writer", "found-tales")
    page = watched.page
    field = page.get_by_label("Search everything")
    field.wait_for()  # the page is live before it knows its broker, and the field comes with that
    page.keyboard.press("/")
    expect(field).to_be_focused()
    field.fill("FOUND-")
    hits = page.locator(".search li")
    hits.filter(has_text="found-writer").filter(has_text="transactional id").wait_for()
    hits.filter(has_text="found-tales-0").wait_for()
    field.press("Escape")
    assert hits.count() == 0
    field.fill("found-tales")
    hits.first.wait_for()
    field.press("Enter")
    page.locator("h1", has_text="found-tales").wait_for()
    page.locator("#sentence").wait_for()
    held.abort_transaction(HANG_S)
    settings = {"bootstrap.servers": broker.address, "group.id": "found-desks", "client.id": "till-7", "log_level": 0}
    reader = Consumer({**settings, "auto.offset.reset": "earliest"})
    reader.subscribe(["found-tales"])
    assert reader.consume(1, HANG_S)
    field.fill("TILL-7")
    hits.filter(has_text="till-7").filter(has_text="member of found-desks").get_by_role("link").click()
    page.locator("h1", has_text="found-desks").wait_for()
    reader.close()
    field.fill("broker 1")
    expect(hits).to_have_text([f"broker 1 at {broker.address}"])
    field.press("Enter")
    page.locator("h1", has_text="Broker 1").wait_for()
    page.get_by_label("Partitions", exact=True).get_by_role("link", name="found-tales-0").wait_for()


def test_a_topic_is_created_written_to_changed_and_deleted_on_its_pages(
    watched: Watched, broker: BrokerProcess
) -> None:
    page = watched.open("topics")
    creating = action(page, "Create a topic")
    creating.get_by_label("Name", exact=True).fill("books")
    creating.get_by_label("Partitions").fill("2")
    creating.get_by_label("Settings").fill("retention.ms=3600000")
    creating.get_by_role("button").click()
    expect(creating.get_by_role("status")).to_have_text("Topic books is there.")
    page.get_by_label("Topics", exact=True).get_by_role("link", name="books", exact=True).click()
    expect(page.get_by_label("Partitions", exact=True).locator("tbody tr[data-index]")).to_have_count(2)
    settings = page.get_by_label("Settings", exact=True)
    expect(settings.locator("tr", has_text="retention.ms")).to_contain_text("3600000")

    writing = action(page, "Write a test record")
    writing.get_by_label("Key").fill("first")
    writing.get_by_label("Value").fill("<b>not markup</b>")
    writing.get_by_label("Written").select_option("commit")
    writing.get_by_role("button").click()
    told = writing.get_by_role("status")
    expect(told).to_have_text("The record has offset 0 of books-0, in a transaction that was committed.")
    producers = page.get_by_label("Producers", exact=True)
    expect(producers.locator("tbody tr[data-index]")).to_contain_text(["eosin-console-"])

    changing = action(page, "Change a setting")
    changing.get_by_label("Setting").select_option("retention.ms")
    changing.get_by_label("Value").fill("7200000")
    changing.get_by_role("button").click()
    expect(settings.locator("tr", has_text="retention.ms")).to_contain_text("7200000")

    watched.open("records/books-0")
    expect(page.get_by_label("Records of books-0")).to_contain_text("<b>not markup</b>")
    watched.open("topics/books")
    deleting = action(page, "Delete this topic")
    deleting.get_by_role("button").click()
    expect(deleting.get_by_role("alert")).to_have_text("Type books to confirm.")
    deleting.get_by_label("Type books").fill("books")
    deleting.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("This broker knows no 'books'.")
    watched.complaints = [each for each in watched.complaints if "404" not in each]


def test_a_topic_shows_who_holds_its_readers_and_who_reads_and_writes_it(
    watched: Watched, broker: BrokerProcess
) -> None:
    producer = shop(broker, "shop-1", "orders")
    committer = Consumer({"bootstrap.servers": broker.address, "group.id": "readers", "log_level": 0})
    committer.commit(offsets=[Position("orders", 0, 0)], asynchronous=False)
    committer.close()
    page = watched.open("topics")
    row = page.get_by_label("Topics", exact=True).locator("tr", has_text="orders")
    expect(row).to_contain_text("held back in 1 partition by shop-1")
    row.get_by_role("link").click()
    expect(page.locator("#sentence")).to_contain_text("held back in 1 partition, first by shop-1.")
    # A record, its marker, and the record that is open.
    expect(page.get_by_label("Partitions", exact=True).locator("tbody td").nth(1)).to_have_text("3")
    expect(page.get_by_label("Producers", exact=True)).to_contain_text("open from 2")
    expect(page.get_by_label("Consumer groups", exact=True).locator("tbody td")).to_have_text(
        ["readers", "Empty", "0", "1", "1", "1"]
    )
    producer.commit_transaction(HANG_S)
    expect(page.locator("#sentence")).to_have_text("Readers of committed records wait for nothing here.")
    expect(page.get_by_label("Producers", exact=True)).not_to_contain_text("open from")


def test_an_id_at_rest_is_fenced_and_a_member_removed_on_their_pages(watched: Watched, broker: BrokerProcess) -> None:
    producer = shop(broker, "shop-3", "tills")
    producer.commit_transaction(HANG_S)
    page = watched.open("transactions/shop-3")
    fencing = action(page, "Fence this id")
    fencing.get_by_label("Type shop-3").fill("shop-3")
    fencing.get_by_role("button").click()
    expect(fencing.get_by_role("status")).to_have_text("The producer of shop-3 is fenced.")
    expect(page.locator("#sentence")).to_contain_text("fenced its producer at")
    producer.begin_transaction()
    producer.produce("tills", b"late", partition=0)
    with pytest.raises(KafkaException):
        producer.commit_transaction(HANG_S)
    expect(page.locator("#sentence")).to_contain_text("because an operator fenced epoch")

    settings = {"bootstrap.servers": broker.address, "group.id": "desks", "client.id": "desk-1", "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["tills"])
    assert consumer.consume(1, HANG_S)
    watched.open("groups/desks")
    member = page.locator("section", has=page.get_by_role("heading", name="Members")).locator("tbody tr")
    expect(member.locator("td").nth(3)).to_contain_text("ago")
    removing = action(page, "Remove a member")
    removing.get_by_role("button").click()
    expect(removing.get_by_role("status")).to_contain_text("desk-1 was removed from desks.")
    happened = page.locator("section", has=page.get_by_role("heading", name="What happened"))
    expect(happened).to_contain_text("removed by an operator in the console")
    consumer.close()


def test_records_are_looked_up_by_their_time_in_utc(watched: Watched, broker: BrokerProcess) -> None:
    plain = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for number, day in enumerate((1, 2, 3)):
        plain.produce("dated", b"day %d" % day, partition=0, timestamp=1_700_000_000_000 + number * 86_400_000)
        assert plain.flush(HANG_S) == 0
    page = watched.open("topics/dated")
    page.get_by_role("button", name="Read its newest records").click()
    rows = page.get_by_label("Records of dated-0").locator("tbody tr[data-index]")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("2023-11-14 22:13:20")
    page.get_by_label("From time").fill("2023-11-15T22:13:20")
    page.get_by_role("button", name="Look").click()
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("day 2")


@pytest.mark.full
def test_records_of_another_cluster_are_read_on_the_page_of_a_topic(browser: Browser, broker: BrokerProcess) -> None:
    held = shop(broker, "far-writer", "far")
    with console_of(broker.address) as console:
        watched = Watched(browser, console.address)
        page = watched.open("topics/far")
        page.get_by_role("button", name="Read its newest records").click()
        page.get_by_label("Show").select_option("everything")
        rows = page.get_by_label("Records of far-0").locator("tbody tr[data-index]")
        expect(rows.locator("td").nth(2)).to_contain_text("committed")
        expect(rows.nth(1)).to_contain_text("COMMIT marker")
        expect(rows.nth(2).locator("td").nth(2)).to_contain_text("open")
        rows.first.get_by_role("link").first.click()
        expect(page.locator("h1")).to_have_text("Record 0 of far-0")
        assert page.get_by_role("link", name="from offset").count() == 0, "it has no page of the log"
        watched.close()
    held.abort_transaction(HANG_S)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_the_pages_of_topics_are_accessible_and_fit_a_telephone(
    browser: Browser, broker: BrokerProcess, scheme: str
) -> None:
    with skipped_without():
        source = axe()
    producer = shop(broker, f"shop-{scheme}", f"seen-{scheme}")
    watched = signed_in(browser, broker, color_scheme=scheme)
    found = {}
    for place in ("topics", f"topics/seen-{scheme}", f"partitions/seen-{scheme}-0", "topics/nothing"):
        page = watched.open(place)
        page.locator(".table tbody a, #sentence, .grave").first.wait_for()
        for each in page.locator("details.action summary").all():
            each.click()
        found[place] = findings(page, source)
        page.set_viewport_size({"width": 360, "height": 800})
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, place
        page.set_viewport_size({"width": 1280, "height": 900})
    producer.abort_transaction(HANG_S)
    watched.complaints = [each for each in watched.complaints if "404" not in each]
    watched.close()
    assert not any(found.values()), found
