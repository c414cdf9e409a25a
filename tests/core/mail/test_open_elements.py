"""Tags close what browsers close, within a number of steps."""

import pytest

from mailonce.core.mail import open_elements
from mailonce.core.mail.open_elements import Element, OpenElements


def opened(*names: str) -> OpenElements:
    elements = OpenElements()
    for name in names:
        elements.push(Element(name))
    return elements


def closed_by(elements: OpenElements, name: str) -> list[str]:
    return [element.name for element in elements.close(name)[0]]


def test_an_end_tag_closes_what_is_inside_innermost_first() -> None:
    assert closed_by(opened("div", "p", "span"), "div") == ["span", "p", "div"]


def test_an_end_tag_of_nothing_closes_nothing() -> None:
    assert closed_by(opened("div"), "section") == []


def test_nothing_is_closed_across_a_cell() -> None:
    assert closed_by(opened("div", "table", "tr", "td", "p"), "div") == []
    assert closed_by(opened("div", "table", "tr", "td", "p"), "table") == ["p", "td", "tr", "table"]


def test_formatting_lives_on_when_its_block_ends() -> None:
    elements = opened("p", "font", "span")

    ended, again = elements.close("p")

    assert [element.name for element in ended] == ["span", "font", "p"]
    assert [element.name for element in again] == ["font"]


def test_formatting_is_taken_away_from_around_a_block() -> None:
    elements = OpenElements()
    elements.push(Element("b", styles={"display": "none"}))
    elements.push(Element("div"))

    elements.close("b")

    assert elements.appearance.can_be_seen
    assert closed_by(elements, "div") == ["div"]


def test_any_heading_ends_any_heading() -> None:
    assert closed_by(opened("h1"), "h2") == ["h1"]


def test_what_a_start_tag_closes(subtests: pytest.Subtests) -> None:
    cases = {
        ("p", "div"): ["p"],
        ("p", "span"): [],
        ("li", "li"): ["li"],
        ("dt", "dd"): ["dt"],
        ("a", "a"): ["a"],
        ("option", "option"): ["option"],
    }
    for (outer, inner), expected in cases.items():
        with subtests.test(f"{inner} in {outer}"):
            ended, _ = opened(outer).close_before(inner)

            assert [element.name for element in ended] == expected


def test_svg_ends_where_html_begins_again() -> None:
    elements = opened("svg", "g")

    assert elements.is_foreign
    assert [element.name for element in elements.close_before("div")[0]] == ["g", "svg"]
    assert not opened("svg", "foreignobject").is_foreign


def test_steps_are_counted_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_elements, "STEPS_MAX", 1_000)
    elements = opened(*["font"] * 100, "p")
    rounds = 0

    while not elements.is_full:
        elements.close("p")
        elements.push(Element("i"))
        elements.push(Element("p"))
        rounds += 1
        assert rounds < 1_000

    assert elements.steps >= 1_000 or rounds >= open_elements.DEPTH_MAX - 101
