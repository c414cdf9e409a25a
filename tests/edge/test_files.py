"""An attachment is downloaded by its signed link, and only as a file."""

from collections.abc import AsyncIterator

import httpx
import orjson
import pytest
import pytest_asyncio

from mailonce.edge.http.app import build_app
from mailonce.views.files import download_headers, plain_type
from tests.inbox.conftest import Desk, desk, make_mail
from tests.inbox.test_digest_mail import WITH_FILE

__all__ = ["desk"]


@pytest_asyncio.fixture
async def client(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_app(desk.service))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8100") as made:
        yield made


async def test_a_link_of_a_delivery_gives_the_file(
    desk: Desk,
    client: httpx.AsyncClient,
) -> None:
    await desk.add_route(events=["inbound"])
    await desk.post.make("ann@in.test")
    await desk.post.send(make_mail(WITH_FILE))
    await desk.until_done()
    [request] = desk.endpoint.requests
    [attachment] = orjson.loads(request.body)["message"]["attachments"]

    answer = await client.get(attachment["url"])
    forged = await client.get(attachment["url"][:-4] + "0000")
    bare = await client.get(attachment["url"].partition("?")[0])

    assert (answer.status_code, answer.content) == (200, b"%PDF-1.4\n")
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-disposition"].startswith('attachment; filename="invoice.pdf"')
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (forged.status_code, bare.status_code) == (401, 401)


@pytest.mark.parametrize("name", ['a"b\r\nX: y', "bücher.pdf", "../../etc/passwd", "", "x" * 999])
def test_a_name_cannot_break_the_header(name: str) -> None:
    value = download_headers(name)["Content-Disposition"]

    assert value.isascii()
    assert "\n" not in value
    assert value.count('"') == 2
    assert len(value) < 1_000


def test_a_type_that_no_header_can_hold_is_unknown() -> None:
    assert plain_type("text/html\r\nX: y") == "application/octet-stream"
    assert plain_type("text/plain") == "text/plain"
