"""The charts of the overview: what they draw, by mouse, by keyboard and for a screen reader (console.md 5.2, 5.6)."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from broker_process import BrokerProcess
from console_browser import Watched, axe, chromium, findings
from playwright.sync_api import Browser, Page, expect
from toolchains import skipped_without
from waiting import HANG_S

pytestmark = [pytest.mark.process, pytest.mark.slow]
expect.set_options(timeout=HANG_S * 1000)

EVERY_MS = 5000
AT_MS = 1_800_000_000_000
"""Of the last sample: 2027-01-15 08:00:00."""
TAKE = """samples => {
    eosinStore.take({ now_ms: Date.now(), tables: { samples } });
    eosinStore.told();
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with skipped_without(), chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("charts") / "data", durability="fsync")
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


def quarter_of_an_hour() -> list[dict[str, Any]]:
    """Samples of 15 minutes: more commits by and by, with a minute in which the broker was paused."""
    samples: list[dict[str, Any]] = []
    at_ms = AT_MS
    for key in range(168, 0, -1):
        took_ms = 65_000 if key == 100 else EVERY_MS
        samples.append(
            {"key": key, "at_ms": at_ms, "took_ms": took_ms, "commits": 5 * key, "flush_ms": 2.5, "busy": 0.3}
        )
        at_ms -= took_ms
    return samples[::-1]


def drawn(watched: Watched, samples: list[dict[str, Any]]) -> Page:
    """The overview with these samples, and none of the broker's own."""
    page = watched.open()
    expect(page.locator("#charts")).to_be_visible()
    page.evaluate("eosinStore.close()")
    page.evaluate(
        TAKE,
        {"reset": True, "rows": samples},
    )
    expect(page.locator(".moment .quiet")).to_contain_text("now")
    return page


def commits(page: Page) -> str:
    return page.locator(".chart", has_text="Commits").locator(".value").inner_text()


def test_a_chart_is_told_in_words_and_drawn_without_a_line_over_a_pause(watched: Watched) -> None:
    page = drawn(watched, quarter_of_an_hour())
    picture = page.get_by_role("img", name="Transactions committed: 168/s now, at most 168/s in the last 15 minutes")
    line = picture.locator("path").get_attribute("d") or ""
    points = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+),([\d.]+)", line)]
    assert line.count("M") == 2, "it begins anew after the minute in which nothing was counted"
    assert len(points) == 168
    assert points[-1][0] == 100
    assert points == sorted(points, key=lambda point: (point[0], -point[1]))
    # The pause of a minute is a fifteenth of the width.
    longest = max(later[0] - earlier[0] for earlier, later in pairwise(points))
    assert 7 < longest < 7.5
    expect(page.locator(".chart")).to_have_count(8)
    expect(page.locator(".chart", has_text="Flush takes").locator(".value")).to_have_text("2.5 ms")
    expect(page.locator(".chart", has_text="Aborts").locator(".most")).to_have_text("none")


def test_a_moment_is_read_by_keyboard_and_told_to_screen_readers(watched: Watched) -> None:
    page = drawn(watched, quarter_of_an_hour())
    slider = page.get_by_role("slider", name="Moment")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert commits(page) == "167/s"
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^07:59:55 UTC: Commits 167/s, Aborts 0/s"))
    expect(page.locator(".moment time")).to_have_attribute("datetime", "2027-01-15T07:59:55.000Z")
    page.keyboard.press("Home")
    assert commits(page) == "1.0/s"
    page.evaluate(
        TAKE,
        {"rows": [{"key": 169, "at_ms": AT_MS + EVERY_MS, "took_ms": EVERY_MS, "commits": 0}], "gone": [1]},
    )
    expect(page.locator(".chart", has_text="Commits").locator(".value")).to_have_text("0/s")  # its moment is gone
    page.keyboard.press("Home")
    assert commits(page) == "2.0/s"
    page.keyboard.press("End")
    assert commits(page) == "0/s"
    expect(page.locator(".moment .quiet")).to_contain_text("now")


def test_a_broker_that_has_begun_a_minute_ago_fills_two_minutes(watched: Watched) -> None:
    page = drawn(watched, quarter_of_an_hour()[-12:])
    expect(page.get_by_role("heading", name="The last 2 minutes")).to_be_visible()
    picture = page.get_by_role("img", name="Transactions committed: 168/s now, at most 168/s in the last 2 minutes")
    line = picture.locator("path").get_attribute("d") or ""
    first = re.match(r"M([\d.]+),", line)
    assert first is not None
    assert float(first[1]) == pytest.approx(100 * (1 - 55 / 120), abs=0.01)


def test_the_pointer_shows_one_moment_in_all_charts(watched: Watched) -> None:
    page = drawn(watched, quarter_of_an_hour())
    box = page.locator(".chart svg").nth(1).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 1, box["y"] + 10)
    expect(page.locator(".chart .at")).to_have_count(8)
    assert commits(page) == "1.0/s"
    page.mouse.move(1, 1)
    expect(page.locator(".chart .at")).to_have_count(0)
    assert commits(page) == "168/s"


def test_the_same_is_a_table_minute_by_minute(watched: Watched, broker: BrokerProcess) -> None:
    page = drawn(watched, quarter_of_an_hour())
    page.get_by_text("The same as a table, minute by minute").click()
    rows = page.get_by_label("Minute by minute").locator("tbody tr")
    expect(rows).to_have_count(16)  # the pause has a longer one, those beside it are shorter
    expect(rows.first.locator("td")).to_contain_text(["08:00:00", "163/s", "0/s", "0 ms", "0/s", "0 B/s"])
    with skipped_without():
        source = axe()
    assert not findings(page, source)


def test_a_broker_that_begins_has_no_chart_yet_and_says_so(watched: Watched) -> None:
    page = watched.open()
    expect(page.locator("#disk")).to_contain_text("An acknowledged write is on the disk.")
    expect(page.locator("#disk")).to_contain_text(re.compile(r"iB of the disk's .*iB are free"))
    page.evaluate("eosinStore.close()")
    page.evaluate(TAKE, {"reset": True})
    expect(page.get_by_text("The first figures come within five seconds.")).to_be_visible()
