"""The console as developers see it: a browser looks at a broker that real clients use (console.md 5)."""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from console_browser import Watched, axe, chromium, findings
from crowded_console import scrolled
from demo_process import demo
from playwright.sync_api import Browser, Page, expect
from toolchains import skipped_without
from waiting import HANG_S
from wire import Wire
from wire_share_fetcher import ACCEPT, RELEASE, Fetcher
from wire_share_group import ShareMember
from wire_streams_group import StreamsMember, both_have, counting

from eosin.protocol.names import TopicPartition

pytestmark = [pytest.mark.process, pytest.mark.slow]
expect.set_options(timeout=HANG_S * 1000)
_T = TypeVar("_T")


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


class WireThread:
    """Connections of a thread with an event loop of its own: a browser's test waits in this one."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._wires: list[Wire] = []
        self.first: Wire
        """The connection of `do`."""

    def __enter__(self) -> "WireThread":
        self._thread.start()
        self.first = self.wire("admin")
        return self

    def __exit__(self, *failure: object) -> None:
        for each in self._wires:
            self.run(each.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The outcome of some work, done there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG_S)

    def wire(self, client_id: str) -> Wire:
        """A new connection."""
        made = self.run(Wire.open(self._address, client_id=client_id))
        self._wires.append(made)
        return made

    def do(self, work: Callable[..., Coroutine[Any, Any, _T]], *about: Any, **how: Any) -> _T:
        """A request on the first connection."""
        return self.run(work(self.first, *about, **how))


@pytest.fixture
def watched(browser: Browser, broker: BrokerProcess) -> Iterator[Watched]:
    found = Watched(browser, broker.http_address)
    yield found
    found.close()


def producer(broker: BrokerProcess, transactional_id: str, client_id: str, timeout_ms: int = 60_000) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": broker.address,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "client.id": client_id,
            "log_level": 0,
        }
    )
    made.init_transactions(HANG_S)
    return made


def begin(made: Producer, topic: str = "orders") -> None:
    made.begin_transaction()
    made.produce(topic, b"book", partition=0)
    assert made.flush(HANG_S) == 0, "what the page is to show was not written"


def go_on(made: Producer) -> None:
    """Write, and commit: a fenced producer hears of it in one of these."""
    made.produce("orders", b"late", partition=0)
    made.commit_transaction(HANG_S)  # it writes first what is left; how long that takes is the machine's


def seconds_left(page: Page, name: str) -> float:
    text = page.get_by_label("Open transactions").locator("tr", has_text=name).locator(".figure").inner_text()
    found = re.fullmatch(r"([0-9.]+) s left", text)
    assert found is not None, text
    return float(found[1])


@pytest.mark.smoke
def test_a_transaction_of_a_real_client_is_seen_open_counting_down_and_committed(
    watched: Watched, broker: BrokerProcess
) -> None:
    page = watched.open()
    shop = producer(broker, "shop-1", "till")
    begin(shop)
    row = page.get_by_label("Open transactions").locator("tr", has_text="shop-1")
    expect(row.locator(".state")).to_have_text("Ongoing")
    expect(row).to_contain_text("orders-0")
    expect(row).to_contain_text("till (confluent-kafka-python")
    first = seconds_left(page, "shop-1")
    page.wait_for_timeout(1500)
    assert 0 < seconds_left(page, "shop-1") < first <= 60
    held = page.get_by_label("Readers held back").locator("tr", has_text="orders-0")
    expect(held).to_contain_text("shop-1")
    expect(held).to_contain_text("an open transaction")
    expect(page.locator("#health")).to_contain_text("held back in 1 partition, first by shop-1")
    page.get_by_role("link", name="Transactions", exact=True).click()
    page.get_by_label("Show").select_option("blocks")
    expect(page.get_by_label("Transactions", exact=True).locator("tbody tr[data-index]")).to_contain_text(["shop-1"])
    page.get_by_role("link", name="Overview", exact=True).click()

    shop.commit_transaction(HANG_S)
    ended = page.get_by_label("Last ends").locator("tr", has_text="shop-1")
    expect(ended.locator(".outcome")).to_contain_text("committed")
    expect(page.locator("#health")).to_have_text("Nothing is open, and nobody waits.")


def test_a_fenced_producer_is_seen_with_the_reason_that_explain_gives(watched: Watched, broker: BrokerProcess) -> None:
    page = watched.open("events")
    old = producer(broker, "shop-2", "till-old")
    begin(old)
    new = producer(broker, "shop-2", "till-new")
    with pytest.raises(KafkaException):
        go_on(old)
    told = page.get_by_label("Fenced, timed out, refused").locator("tr", has_text="shop-2").first
    expect(told).to_contain_text("a new instance, till-new (confluent-kafka-python")
    expect(told.locator(".outcome")).to_contain_text("fenced")
    told.get_by_role("link").click()
    expect(page.locator("#sentence")).to_contain_text("shop-2 was fenced at")
    happened = page.locator("section", has=page.get_by_role("heading", name="What happened"))
    expect(happened).to_contain_text("a new instance takes the id over: epoch")
    expect(happened).to_contain_text("a new instance has taken over")
    expect(page.locator(".evidence")).to_contain_text("was refused with")
    expect(page.locator("#sentence")).to_contain_text("because a new instance, till-new")
    # A lane for each instance, and an arrow from the one that took over to the one that was refused.
    picture = page.get_by_role("img", name="2 instances from")
    expect(picture).to_have_accessible_name(
        re.compile("transactions: 1 fenced; 1 fence. The table below has the same.")
    )
    expect(picture.locator("g text")).to_contain_text(["till-old at 127.0.0.1", "till-new at 127.0.0.1"])
    expect(picture.locator("rect.bad title")).to_contain_text("fenced, 1 partition")
    expect(picture.locator(".fence > line")).to_have_count(1)
    assert picture.locator(".fence path").bounding_box()["x"] > picture.locator("rect.bad").bounding_box()["x"]
    del new


def test_a_name_that_is_markup_is_shown_as_it_is(watched: Watched, broker: BrokerProcess) -> None:
    name = "<img src=x onerror=alert(1)>&amp;/?#'\""
    page = watched.open("transactions")
    producer(broker, name, "<b>till</b>")
    link = page.get_by_role("link", name=name)
    expect(link).to_have_text(name)
    link.click()
    expect(page.locator("h1")).to_have_text(name)
    expect(page.locator("#sentence")).to_contain_text("has nothing open")


def test_lag_counts_no_control_records_and_nothing_that_is_undecided(watched: Watched, broker: BrokerProcess) -> None:
    shop = producer(broker, "shop-3", "till")
    for _ in range(3):
        begin(shop, "lagging")
        shop.commit_transaction(HANG_S)
    begin(shop, "lagging")
    shop.abort_transaction(HANG_S)
    begin(shop, "lagging")
    committer = Consumer({"bootstrap.servers": broker.address, "group.id": "readers", "log_level": 0})
    committer.commit(offsets=[Position("lagging", 0, 1)], asynchronous=False)  # behind the first of three records
    committer.close()
    page = watched.open("groups")
    row = page.get_by_label("All groups").locator("tr", has_text="readers")
    # Offsets 1 to 8: three markers and the abort's, two records, an aborted one; the record at 8 is undecided.
    at = re.compile(r"\d\d:\d\d:\d\d")
    expect(row.locator("td")).to_have_text(["readers", "classic", "Empty", "0", "1", "2", "", "4", "1", at, "0"])
    row.get_by_role("link").click()
    expect(page.locator("#sentence")).to_contain_text("1 undecided behind the open transaction of shop-3")
    shop.abort_transaction(HANG_S)


def test_a_group_shows_who_reads_what_and_why_it_rebalanced(watched: Watched, broker: BrokerProcess) -> None:
    plain = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    plain.produce("shared", b"book", partition=0)
    assert plain.flush(HANG_S) == 0
    settings = {"bootstrap.servers": broker.address, "group.id": "sharers", "log_level": 0, "client.id": "reader-1"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["shared"])
    assert consumer.consume(1, HANG_S)
    page = watched.open("groups/sharers")
    expect(page.locator("#sentence")).to_contain_text("because reader-1 at 127.0.0.1 joined")
    member = page.locator("section", has=page.get_by_role("heading", name="Members")).locator("tbody tr")
    expect(member.locator("td")).to_contain_text(["reader-1", "127.0.0.1", "shared-0", "45 s"])
    happened = page.locator("section", has=page.get_by_role("heading", name="What happened"))
    expect(happened).to_contain_text("a member joins: reader-1-")
    consumer.close()
    expect(page.locator("section", has=page.get_by_role("heading", name="Members"))).to_contain_text("nobody reads now")
    expect(happened).to_contain_text("a member leaves: ")


def test_a_consumer_group_shows_its_epoch_and_what_its_members_subscribe_to(
    watched: Watched, broker: BrokerProcess
) -> None:
    plain = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    plain.produce("told", b"book", partition=0)
    assert plain.flush(HANG_S) == 0
    settings = {"bootstrap.servers": broker.address, "group.id": "consumers", "log_level": 0, "client.id": "reader-2"}
    consumer = Consumer({**settings, "group.protocol": "consumer", "auto.offset.reset": "earliest"})
    consumer.subscribe(["told"])
    assert consumer.consume(1, HANG_S)
    page = watched.open("groups")
    page.get_by_label("All groups").locator("tr", has_text="consumers").get_by_role("link").click()
    expect(page.locator("#sentence")).to_contain_text("(epoch 2) because reader-2 at 127.0.0.1 joined")
    expect(page.locator("dl.facts")).to_contain_text("Stable, epoch 2")
    member = page.locator("section", has=page.get_by_role("heading", name="Members")).locator("tbody tr")
    expect(member.locator("td")).to_contain_text(["reader-2", "127.0.0.1", "told-0", "nothing", "told", "2"])
    happened = page.locator("section", has=page.get_by_role("heading", name="What happened"))
    expect(happened).to_contain_text("every member has its partitions of epoch 2")
    consumer.close()
    expect(page.locator("section", has=page.get_by_role("heading", name="Members"))).to_contain_text("nobody reads now")


def test_share_and_streams_groups_show_what_their_members_have_and_wait_for(
    watched: Watched, broker: BrokerProcess
) -> None:
    with WireThread(broker.address) as wires:
        wires.do(Wire.create_topic, "jobs", partitions=1)
        page = watched.open("groups?find=streams")
        app = StreamsMember(wires.wire("app-1"), "word-count", "a")
        wires.run(app.join(counting("lines", "word-count")))
        page.get_by_label("All groups").locator("tr", has_text="word-count").get_by_role("link").click()
        expect(page.locator("#sentence")).to_contain_text("no tasks are dealt out: Source topics lines are missing")
        expect(page.locator("dl.facts")).to_contain_text("streams")
        wires.do(Wire.create_topic, "lines", partitions=1)
        wires.run(app.has(2))
        expect(page.locator("dl.facts")).to_contain_text("2 active, 0 standby, 0 warm-up")
        member = page.locator("section", has=page.get_by_role("heading", name="Members")).locator("tbody tr")
        expect(member.locator("td")).to_contain_text(["app-1", "127.0.0.1", "0_0, 1_0", "nothing", "nothing"])
        worker = ShareMember(wires.wire("worker-1"), "workers", "w")
        wires.run(worker.joined("jobs"))
        page = watched.open("groups/workers")
        expect(page.locator("#sentence")).to_contain_text("share group workers: Stable, 1 member")
        shared = page.locator("section", has=page.get_by_role("heading", name="Partitions")).locator("tbody td")
        expect(shared.first).to_have_text("jobs-0")
        expect(shared.nth(1)).to_have_text("not read")
        wires.run(worker.leave())
        expect(page.locator("section", has=page.get_by_role("heading", name="Members"))).to_contain_text(
            "nobody reads now"
        )
        wires.run(app.leave())


def test_pages_are_walked_by_keyboard_alone(watched: Watched, broker: BrokerProcess) -> None:
    kept = [producer(broker, f"walk-{number}", "till") for number in range(3)]
    page = watched.open()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Transactions", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.type("walk-")
    expect(page.locator("#count")).to_contain_text("3 of")
    rows = page.get_by_label("Transactions", exact=True).locator("tbody a")
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(rows.nth(2)).to_be_focused()
    page.keyboard.press("Home")
    expect(rows.first).to_be_focused()
    name = rows.first.inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(name)
    assert len(kept) == 3


def test_a_place_that_is_no_page_says_so(watched: Watched) -> None:
    """Every object of JavaScript has properties by some of these names."""
    for place in ("constructor", "constructor/toString", "__proto__/x", "hasOwnProperty", "log", "nowhere/%E0%A4"):
        page = watched.open(place)
        expect(page).to_have_title("No such page - Eosin")
        expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    page.get_by_role("link", name="The overview").click()
    expect(page.get_by_role("heading", name="Open transactions")).to_be_visible()


def test_what_a_page_has_chosen_is_in_its_address(watched: Watched, broker: BrokerProcess) -> None:
    made = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for number in (2, 10):
        made.produce(f"sorted-{number}", b"x")
    assert made.flush(HANG_S) == 0
    page = watched.open("partitions?find=sorted&sort=-Partition")
    rows = page.get_by_label("Partitions", exact=True).locator("tbody tr[data-index] a").first
    expect(page.get_by_label("Find")).to_have_value("sorted")
    expect(rows).to_have_text("sorted-10-0")
    page.get_by_label("Find").fill("sorted-2")
    page.get_by_label("Show").select_option("held")
    assert page.url.endswith("#/partitions?find=sorted-2&sort=-Partition&show=held")
    page.get_by_label("Show").select_option("")
    page.reload()
    expect(rows).to_have_text("sorted-2-0")
    page.get_by_role("link", name="Partitions", exact=True).click()
    expect(page.get_by_label("Find")).to_have_value("")


def test_no_page_is_wider_than_a_telephone_or_lost_on_a_wide_screen(watched: Watched, broker: BrokerProcess) -> None:
    shop = producer(broker, "shop-" + "long" * 50, "till")
    begin(shop)
    page = watched.open()
    for width in (360, 3840):
        page.set_viewport_size({"width": width, "height": 800})
        for place in ("", "transactions", "partitions", "groups", "events", "transactions/shop-" + "long" * 50):
            watched.open(place)
            page.locator("#sentence, .table").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, place
            # No heading of a column is broken within a word.
            heights = page.eval_on_selector_all(".plain th", "all => all.map((each) => each.clientHeight)")
            assert max(heights, default=0) < 40, place
    shop.abort_transaction(HANG_S)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_every_page_is_accessible_in_light_and_in_dark(browser: Browser, broker: BrokerProcess, scheme: str) -> None:
    with skipped_without():
        source = axe()
    shop = producer(broker, f"shop-{scheme}", "till")
    begin(shop)
    watched = Watched(browser, broker.http_address, color_scheme=scheme)
    found = {}
    for place in (
        "",
        "transactions",
        "partitions",
        "groups",
        "events",
        f"transactions/shop-{scheme}",
        "partitions/orders-0",
    ):
        page = watched.open(place)
        page.locator("#sentence, .table").first.wait_for()
        found[place] = findings(page, source)
    shop.abort_transaction(HANG_S)
    watched.close()
    assert not any(found.values()), found


def test_a_page_finds_its_broker_again_after_a_restart(browser: Browser, tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data")
    process.options = ("--console", "--http", "0")
    process.start()
    try:
        watched = Watched(browser, process.http_address)
        page = watched.open("transactions")
        before = producer(process, "before", "till")
        expect(page.get_by_role("link", name="before")).to_be_visible()
        process.options = ("--console", "--http", watched.http)
        process.stop()
        expect(page.locator("#connection")).to_contain_text("connection lost")
        expect(page.get_by_role("alert")).to_contain_text("The broker does not answer; what stands here is of ")
        since = page.evaluate("eosinStore.now()")
        page.wait_for_timeout(600)
        assert page.evaluate("eosinStore.now()") == since, "a clock of a broker that is gone"
        process.start()
        producer(process, "after", "till")
        expect(page.get_by_role("link", name="after")).to_be_visible()
        expect(page.get_by_role("link", name="before")).to_be_visible()
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.get_by_role("alert")).to_have_count(0)
        assert page.evaluate("eosinStore.now()") > since
        watched.complaints = [each for each in watched.complaints if "ERR_CONNECTION_REFUSED" not in each]
        watched.complaints = [each for each in watched.complaints if "ERR_INCOMPLETE_CHUNKED" not in each]
        watched.close()
        del before
    finally:
        process.stop()


def test_a_page_asks_for_the_token_and_takes_the_one_of_its_address(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("correct-horse")
    settings = {"eosin.http.token.file": str(tmp_path / "token")}
    process = BrokerProcess(tmp_path / "data", durability="memory", settings=settings)
    process.options = ("--console", "--http", "0")
    process.start()
    try:
        watched = Watched(browser, process.http_address)
        page = watched.page
        page.goto(f"http://{watched.http}/")
        for token in ("wrong-horse", "correct-horse"):
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Look in").click()
            if token == "wrong-horse":
                expect(page.get_by_role("alert")).to_have_text("That is not the token of eosin.http.token.file.")
        expect(page.locator("#connection")).to_have_text("live")
        page.reload()
        expect(page.locator("#connection")).to_have_text("live")
        assert {"401 (Unauthorized)" in each for each in watched.complaints} == {True}
        watched.complaints = []
        watched.close()

        watched = Watched(browser, process.http_address)
        watched.page.goto(f"http://{watched.http}/#token=correct-horse")
        expect(watched.page.locator("#connection")).to_have_text("live")
        assert watched.page.url == f"http://{watched.http}/#/"
        watched.close()
    finally:
        process.stop()


@pytest.mark.full
def test_ten_thousand_ids_and_a_thousand_partitions_stay_current_while_the_page_is_scrolled(
    browser: Browser, tmp_path: Path
) -> None:
    looked = scrolled(browser, tmp_path / "data", ids=10_000, partitions=1000)
    assert looked.transactions > 10
    assert looked.frames > 0
    assert looked.most_rows < 60, "only what is in view is in the page"


PICTURES = os.environ.get("CONSOLE_PICTURES", "")
SAMPLES_IN_PICTURES = 23
"""A little less than two minutes."""


@pytest.mark.timeout(400)
@pytest.mark.skipif(not PICTURES, reason="draws the pictures of docs/console.md: make console-pictures")
def test_pictures_are_drawn(browser: Browser, tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", durability="memory")
    process.options = ("--console", "--http", "0")
    process.start()
    try:
        with WireThread(process.address) as wires:
            _draw(browser, process, wires, Path(PICTURES))
    finally:
        process.stop()
    with demo(tmp_path) as shown:
        _draw_overview(browser, shown.http_address, Path(PICTURES))


def _sharers(wires: WireThread) -> None:
    """A share group of two members: some of its records are done, some are held, and one is to come again."""
    wires.do(Wire.create_topic, "jobs", partitions=2)
    wires.do(Wire.configure_group, "workers", {"share.auto.offset.reset": "earliest"})
    workers = [ShareMember(wires.wire(f"worker-{number}"), "workers", f"w{number}") for number in (1, 2)]
    for each in workers:
        wires.run(each.join("jobs"))
    for each in workers:
        wires.run(each.has(1))
        ((topic_id, number),) = each.assigned
        wires.do(Wire.append, TopicPartition("jobs", number), 9)
        fetcher = Fetcher(each.wire, "workers", topic_id, number)
        fetcher.member_id = each.member_id
        wires.run(fetcher.fetch())
        wires.run(fetcher.acknowledge((0, 3, (ACCEPT,)), (5, 5, (RELEASE,))))


def _counters(wires: WireThread) -> None:
    """A streams group of two members, each with a copy of what the other one counts."""
    wires.do(Wire.create_topic, "lines", partitions=2)
    wires.do(Wire.configure_group, "word-count", {"streams.num.standby.replicas": "1"})
    members = [StreamsMember(wires.wire(f"app-{name}"), "word-count", name) for name in "ab"]
    for each in members:
        wires.run(each.join(counting("lines", "word-count")))
    wires.run(both_have(2, *members))


def _draw(browser: Browser, broker: BrokerProcess, wires: WireThread, folder: Path) -> None:
    kept = []
    for number in range(4):
        shop = producer(broker, f"shop-{number}", f"till-{number}")
        for _ in range(number + 1):
            begin(shop)
            shop.commit_transaction(HANG_S)
        kept.append(shop)
    begin(kept[0], "payments")
    kept[0].abort_transaction(HANG_S)
    slow = producer(broker, "invoicing-1", "invoicing", timeout_ms=2000)
    begin(slow, "invoices")
    old = producer(broker, "orders-1", "orders-old")
    begin(old)
    kept.append(producer(broker, "orders-1", "orders-new"))
    with pytest.raises(KafkaException):
        go_on(old)
    committer = Consumer({"bootstrap.servers": broker.address, "group.id": "readers", "log_level": 0})
    committer.commit(offsets=[Position("orders", 0, 2)], asynchronous=False)
    committer.close()
    biller = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "billing",
            "group.protocol": "consumer",
            "client.id": "biller",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    biller.subscribe(["orders", "payments"])
    assert biller.consume(1, HANG_S)
    _sharers(wires)
    _counters(wires)
    begin(kept[1], "payments")
    begin(kept[2], "orders")
    watched = Watched(browser, broker.http_address)
    for place, name in (
        ("partitions", "topics"),
        ("groups", "groups"),
        ("groups/workers", "share-group"),
        ("groups/word-count", "streams-group"),
        ("transactions/orders-1", "fenced"),
        ("log/orders-0", "log"),
    ):
        page = watched.open(place)
        page.locator("#sentence, .table tbody").first.wait_for()
        if name == "groups":
            expect(page.get_by_label("All groups").locator("tbody tr[data-index]")).to_have_count(4)
        height = 780 if name.endswith("-group") else 460
        page.screenshot(path=folder / f"console-{name}.png", clip={"x": 0, "y": 0, "width": 1280, "height": height})
    page = watched.open("topics/orders")
    expect(page.get_by_label("Producers", exact=True)).to_be_visible()
    page.screenshot(path=folder / "console-topic.png", clip={"x": 0, "y": 0, "width": 1280, "height": 780})
    watched.close()
    biller.close()
    kept[1].abort_transaction(HANG_S)
    kept[2].abort_transaction(HANG_S)


def _draw_overview(browser: Browser, http: str, folder: Path) -> None:
    for scheme in ("light", "dark"):
        watched = Watched(browser, http, color_scheme=scheme)
        page = watched.open()
        while page.evaluate("eosinStore.tables.samples.size") < SAMPLES_IN_PICTURES:
            page.wait_for_timeout(500)
        expect(page.get_by_label("Fenced, timed out, refused")).to_contain_text("ran out of time")
        expect(page.get_by_label("Readers held back").locator("tr", has_text="invoices-0")).to_be_visible()
        page.screenshot(path=folder / f"console-{scheme}.png", clip={"x": 0, "y": 0, "width": 1280, "height": 860})
        watched.close()
