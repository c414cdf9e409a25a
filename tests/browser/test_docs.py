"""The API's page in a real browser that reaches nothing but our server."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, sync_playwright

from tests.acceptance.harness import ADMIN_KEY, Server, event, running

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome")
     if (path := shutil.which(name))), None,
)  # fmt: skip
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; tests/browser/install.sh says why"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running(Server(tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}")) as started:
        yield started


@pytest.fixture
def page(server: Server) -> Iterator[Page]:
    """A page whose every request to another host fails, and is remembered as a fault."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        opened = browser.new_page()
        strangers: list[str] = []

        def only_ours(route: Route) -> None:
            if route.request.url.startswith(server.url):
                route.continue_()
            else:
                strangers.append(route.request.url)
                route.abort()

        opened.route("**/*", only_ours)
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.on(
            "console",
            lambda message: errors.append(message.text) if message.type == "error" else None,
        )
        yield opened
        browser.close()
        assert strangers == [], "the page asked another host"
        assert errors == []


def test_the_page_shows_every_operation_without_the_network(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/docs")

    page.wait_for_selector("details")

    wanted = sum(len(methods) for methods in server.get("/openapi.json")["paths"].values())
    assert page.locator("details").count() == wanted
    page.fill("#find", "get recipient")
    assert page.locator("details:visible", has_text="/v1/events").count() > 0
    assert 0 < page.locator("details:visible").count() < wanted / 2
    page.fill("#key", "mok_one")
    page.reload()
    page.wait_for_selector("details", state="attached")
    assert page.input_value("#key") == "mok_one"
    assert "One email event, one outcome." in page.inner_text("header")


def test_an_operation_can_be_tried_on_the_page(page: Page, server: Server) -> None:
    server.post(event("seen", "bounce", bounce_type="hard"))
    page.goto(f"{server.url}/docs")
    page.fill("#key", ADMIN_KEY)
    operation = page.locator("details", has_text="/v1/messages/{message_id}").first

    operation.locator("summary").click()
    operation.locator("input[name=message_id]").fill("mseen")
    operation.locator("button").click()

    # A locator, because the page's policy lets nobody evaluate text, not even a test.
    operation.locator("pre", has_text='"status": "hard"').wait_for(timeout=15_000)
