"""Only a request that cannot be misread takes the short way."""

import pytest

from mailonce.edge.http.wait_request import WaitRequest, read_wait, with_wait

HEADERS = "Host: x\r\nAuthorization: Bearer mok_1\r\n"


def request(target: str, headers: str = HEADERS) -> bytes:
    return f"GET {target} HTTP/1.1\r\n{headers}\r\n".encode()


def test_what_it_is_about_is_read() -> None:
    expectation = read_wait(request("/v1/expectations/exp_1?wait=25"))
    inbox = read_wait(request("/v1/inboxes/a+b@in.test/messages?after=7&wait=2.5&limit=3"))

    assert expectation == WaitRequest("expectations", "exp_1", {}, 25.0, "mok_1")
    query = {"after": "7", "limit": "3"}
    assert inbox == WaitRequest("inboxes", "a+b@in.test", query, 2.5, "mok_1")


@pytest.mark.parametrize(
    "data",
    [
        request("/v1/expectations/exp_1"),
        request("/v1/expectations/exp_1?wait="),
        request("/v1/expectations/exp_1?wait=25&wait=1"),
        request("/v1/expectations/exp_1?wait=1e1"),
        request("/v1/expectations/exp_1?wait=%32"),
        request("/v1/expectations/exp_1/messages?wait=25"),
        request("/v1/expectations/exp_1/explain?wait=25"),
        request("/v1/inboxes/ann?wait=25"),
        request("/v1/inboxes/a%40b/messages?wait=25"),
        request("/v1/expectations/exp_1?wait=25#there"),
        request("/v1/expectations/exp_1?wait=25", "Host: x\r\n"),
        request("/v1/expectations/exp_1?wait=25", "Host: x\r\nAuthorization: Basic abc\r\n"),
        request("/v1/expectations/exp_1?wait=25", "Authorization: Bearer mok_1\r\n"),
        request("/v1/expectations/exp_1?wait=25", HEADERS + HEADERS),
        request("/v1/expectations/exp_1?wait=25", HEADERS + "Content-Length: 2\r\n"),
        request("/v1/expectations/exp_1?wait=25", HEADERS + "Transfer-Encoding: chunked\r\n"),
        request("/v1/expectations/exp_1?wait=25", HEADERS + "Mailonce-Workspace: other\r\n"),
        request("/v1/expectations/exp_1?wait=25", HEADERS + "Connection: close\r\n"),
        request("/v1/expectations/exp_1?wait=25", HEADERS + "Upgrade: h2c\r\n"),
        request("/v1/expectations/exp_1?wait=25", HEADERS + "X: a\r\n folded\r\n"),
        request("/v1/expectations/exp_1?wait=25") + b"GET /",
        request("/v1/expectations/exp_1?wait=25")[:-2],
        b"HEAD" + request("/v1/expectations/exp_1?wait=25")[3:],
    ],
)
def test_whatever_is_unusual_is_left_to_the_parser(data: bytes) -> None:
    assert read_wait(data) is None


def test_another_time_to_wait_is_put_into_the_query_alone() -> None:
    data = request("/v1/inboxes/wait=3/messages?after=7&wait=25", HEADERS + "X: ?wait=9\r\n")

    changed = with_wait(data, 1.5)

    assert changed == data.replace(b"&wait=25", b"&wait=1.500")
    assert with_wait(data, -1.0) == data.replace(b"&wait=25", b"&wait=0.000")
