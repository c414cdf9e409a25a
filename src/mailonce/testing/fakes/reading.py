"""How a fake reads the JSON of a call: what is missing or wrong refuses the call."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from mailonce.testing.fakes.http_server import FakeRequest
from mailonce.testing.fakes.records import FakeMail

_ADDRESS = re.compile(r'(?:"(?:[^"\\\r\n]|\\.)+"|[^\s@<>,;:()"]+)@[^\s@<>,;"]+')
# One of several addresses; a comma within quotes or angle brackets does not end it.
_LISTED = re.compile(r'(?:"(?:\\.|[^"\\])*"|<[^>]*>|[^,])+')


class CallRefusedError(Exception):
    """A call that the provider itself refuses, and the field at fault where there is one.

    Without a status it is the one that the provider has for a wrong field.
    """

    def __init__(
        self, reason: str, *, field: str = "", is_missing: bool = False, status: int | None = None
    ) -> None:
        super().__init__(reason)
        self.field = field
        self.is_missing = is_missing
        self.status = status


class FieldTypeError(CallRefusedError):
    """A field whose value is of another type than the provider's."""


class FakeRecipient(NamedTuple):
    """To whom a mail goes, and in which field that stood: to, cc or bcc."""

    address: str
    role: str = "to"


class Fields:
    """The fields of a JSON object. One that is null or empty is as good as absent."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self.values = values
        self._path = path

    def name_of(self, name: str) -> str:
        """Give the name of a field with those of the objects that it is in."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        return self.values.get(name) not in (None, "", [], {})

    def need(self, *names: str) -> None:
        """Refuse the call unless it has one of these fields."""
        if not any(map(self.has, names)):
            wanted = " or ".join(f"'{self.name_of(name)}'" for name in names)
            field = self.name_of(names[0])
            raise CallRefusedError(f"{wanted} is required", field=field, is_missing=True)

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._mistyped(name, "a text")
        return value

    def need_text(self, name: str) -> str:
        self.need(name)
        return self.text(name)

    def need_content(self, *texts: str, instead: Iterable[str] = ()) -> None:
        """Refuse a mail that has none of these texts, nor anything in their place."""
        for name in texts:
            self.text(name)
        self.need(*texts, *instead)

    def texts(self, name: str) -> list[str]:
        """Read a list of texts; one text is as good as a list of one."""
        value = self.values.get(name)
        listed = [value] if isinstance(value, str) else value
        return [
            self._checked(name, one, str, "a list of texts") for one in self._list(name, listed)
        ]

    def mapping(self, name: str) -> dict[str, Any]:
        """Read an object whose fields have any names."""
        value = self.values.get(name)
        return {} if value is None else dict(self._checked(name, value, dict, "an object"))

    def fields(self, name: str) -> "Fields":
        return Fields(self.mapping(name), self.name_of(name))

    def objects(self, name: str) -> list["Fields"]:
        """Read a list of objects."""
        values = self._list(name, self.values.get(name))
        return [
            Fields(
                self._checked(name, one, dict, "a list of objects"),
                f"{self.name_of(name)}.{number}",
            )
            for number, one in enumerate(values)
        ]

    def address(self, name: str) -> str:
        """Read a field that must be an address, with or without a name."""
        return self._address(name, self.need_text(name))

    def person(self, name: str, key: str = "email") -> str:
        """Read the address of an object that must be there."""
        self.need(name)
        return self.fields(name).address(key)

    def people(self, *names: str, key: str = "email") -> list[FakeRecipient]:
        """Read recipients from lists of objects."""
        return [
            FakeRecipient(one.address(key), _role(name))
            for name in names
            for one in self.objects(name)
        ]

    def addresses(self, *names: str) -> list[FakeRecipient]:
        """Read recipients from lists of texts, or from a text for one of them."""
        return [
            FakeRecipient(self._address(name, one), _role(name))
            for name in names
            for one in self.texts(name)
        ]

    def listed_addresses(self, *names: str) -> list[FakeRecipient]:
        """Read recipients from texts in which commas stand between them."""
        return [
            FakeRecipient(self._address(name, one), _role(name))
            for name in names
            for one in split_addresses(self.text(name))
        ]

    def refuse_unknown(self, *names: str) -> None:
        """Refuse a call by one of these fields, which the provider knows and the fake does not."""
        for name in filter(self.has, names):
            field = self.name_of(name)
            raise CallRefusedError(f"this fake does not know '{field}'", field=field)

    def wrong(self, name: str, why: str) -> CallRefusedError:
        field = self.name_of(name)
        return CallRefusedError(f"'{field}' {why}", field=field)

    def _address(self, name: str, text: str) -> str:
        address = bare(text)
        if _ADDRESS.fullmatch(address) is None:
            raise self.wrong(name, f"has no valid email address in {text!r}")
        return address

    def _list(self, name: str, value: Any) -> list[Any]:
        return [] if value is None else list(self._checked(name, value, list, "a list"))

    def _checked(self, name: str, value: Any, kind: type, words: str) -> Any:
        if not isinstance(value, kind):
            raise self._mistyped(name, words)
        return value

    def _mistyped(self, name: str, words: str) -> FieldTypeError:
        field = self.name_of(name)
        return FieldTypeError(f"'{field}' must be {words}", field=field)


def json_value(request: FakeRequest) -> Any:
    """Read a body of JSON; what is none refuses the call."""
    try:
        return orjson.loads(request.body)
    except ValueError:
        raise CallRefusedError("the body is no valid JSON", status=400) from None


def json_fields(request: FakeRequest, *, type_matters: bool = True) -> Fields:
    """Read a body that must be an object of JSON, and in most APIs must be said to be JSON."""
    type_ = request.content_type
    if type_matters and type_ not in {"", "application/json"}:
        raise CallRefusedError(
            f"this fake knows {request.call} with JSON alone, and the Content-Type is {type_!r}",
            status=415,
        )
    value = json_value(request)
    if not isinstance(value, dict):
        raise CallRefusedError("the body must be an object of JSON", status=400)
    return Fields(value)


def need_recipients(
    recipients: list[FakeRecipient], field: str, *, most: int | None = None
) -> list[FakeRecipient]:
    """Refuse a mail for nobody, or for more than the provider takes in a call."""
    if not recipients:
        raise CallRefusedError(f"'{field}' is required", field=field, is_missing=True)
    if most is not None and len(recipients) > most:
        raise CallRefusedError(f"a mail has {most} recipients at most", field=field)
    return recipients


def to_each(
    recipients: Iterable[FakeRecipient],
    *,
    subject: str,
    marks: Mapping[str, Any],
    key: str | None = None,
    message_id: str = "",
    place: int = 0,
    is_test: bool = False,
) -> list[FakeMail]:
    """Make the mail for each recipient."""
    return [
        FakeMail(
            recipient=one.address,
            role=one.role,
            subject=subject,
            marks=marks,
            key=key,
            message_id=message_id,
            place=place,
            is_test=is_test,
        )
        for one in recipients
    ]


def split_addresses(text: str) -> list[str]:
    """Split a text at the commas between its addresses."""
    return [one.strip() for one in _LISTED.findall(text) if one.strip()]


def bare(address: str) -> str:
    """Take the address out of `Name <address>`."""
    text = address.strip()
    return text.rpartition("<")[2][:-1].strip() if text.endswith(">") else text


def _role(name: str) -> str:
    lower = name.lower()
    return next((role for role in ("bcc", "cc") if role in lower), "to")
