"""The settings of a record are found among its fields, so that nothing lists them again."""

from dataclasses import dataclass

from mailonce.core.arrivals import source
from mailonce.core.deliveries import route
from mailonce.core.fields import setting_fields


@dataclass(frozen=True)
class Lamp:
    name: str
    colours: tuple[str, ...] = ()
    watts: float | None = None
    is_on: bool = False


def test_a_new_field_is_a_setting_unless_it_is_named_as_something_else() -> None:
    settings = setting_fields(Lamp, but=("name", "is_on"))

    assert settings.names == ("colours", "watts")
    assert settings.lists == {"colours"}
    assert settings.of(Lamp("desk", ("red",), 4.5)) == {"colours": ("red",), "watts": 4.5}


def test_a_body_that_is_a_list_is_no_list_of_settings() -> None:
    assert "mapping" in route.SETTINGS.names
    assert route.SETTINGS.lists == {
        "events", "sources", "domains", "tags", "senders", "subject_contains", "inboxes",
        "secrets", "waits_s",
    }  # fmt: skip


def test_nothing_that_tells_who_a_source_is_can_be_set() -> None:
    identity = {"id", "workspace", "name", "provider", "account", "is_unreadable"}

    assert identity.isdisjoint(source.SETTINGS.names)
