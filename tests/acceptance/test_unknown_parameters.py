"""An unknown query parameter is refused on every path: ignored, it would show or do too much."""

import re
from collections.abc import Iterator

import pytest

from tests.acceptance.harness import Server, running

MISSPELT = "recipent"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("parameters")
    with running(Server(folder / "server", f"sqlite:///{folder / 'data.db'}")) as started:
        yield started


def test_every_path_refuses_a_parameter_that_it_does_not_have(shared: Server) -> None:
    described = shared.get("/openapi.json")["paths"]
    places = [
        (method.upper(), path)
        for path in described
        for method in described[path]
        if path.startswith("/v1/")
    ]
    assert len(places) > 80
    # Without the parameter it would be a mail.
    body = {"to": "ann@example.net", "from": "a@b.c", "text": "x", "cause_id": "c"}

    answers = {
        (method, path): shared.api(
            re.sub(r"\{\w+\}", "x", path),
            method=method,
            params={MISSPELT: "ann@example.net"},
            **({} if method == "GET" else {"json": body}),
        )
        for method, path in places
    }

    wanted = f"there is no parameter '{MISSPELT}' here; this path has "
    taken = {
        place: (answer.status_code, answer.text[:200])
        for place, answer in answers.items()
        if answer.status_code != 400 or not answer.json()["detail"].startswith(wanted)
    }
    assert taken == {}


def test_the_refusal_names_the_parameters_that_there_are(shared: Server) -> None:
    answer = shared.api("/v1/events", params={MISSPELT: "ann@example.net"})

    assert "`recipient`" in answer.json()["detail"]


def test_probes_may_have_parameters_of_their_own(shared: Server) -> None:
    described = shared.get("/openapi.json")["paths"]
    paths = [path for path in described if "get" in described[path] and "{" not in path]
    probes = [path for path in paths if not path.startswith("/v1/")]
    assert probes

    answers = {path: shared.api(path, params={"now": "1"}).status_code for path in probes}

    assert set(answers.values()) == {200}, answers


def test_a_parameter_that_is_given_twice_is_refused(shared: Server) -> None:
    """One of the two would be ignored: a list would lack what was asked for."""
    lifted = "/v1/suppressions/ann@example.net?cause=hard&cause=complaint"
    places = {
        ("GET", "/v1/events?type=bounced&type=complained"): "type",
        ("GET", "/v1/deliveries?limit=5&state=failed&state=pending"): "state",
        ("DELETE", lifted): "cause",
    }

    answers = {place: shared.api(place[1], method=place[0]) for place in places}

    shown = {place: (one.status_code, one.json().get("detail")) for place, one in answers.items()}
    assert shown == {
        place: (400, f"`{name}` is there 2 times; give it once, and ask again for each other value")
        for place, name in places.items()
    }
