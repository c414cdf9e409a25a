"""Keys: the content-only identity by which copies of an event are recognised."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, NewType

from msgspec import Struct

from mailonce.core.json_text import canonical

Key = NewType("Key", bytes)  # 16 bytes
Fingerprint = NewType("Fingerprint", bytes)  # 16 bytes

KEY_BYTES = 16
WHOLE_ELEMENT = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The versioned rule that makes a key from a provider's own words.

    `identity` names the fields that tell one event from another, `content` those that must be
    equal in copies; a field in neither is volatile and may differ freely. A field marked `@` is
    an address and compared casefolded; `*` is the whole element. Whoever changes a recipe raises
    its version and names the old one as `previous`: for one window both keys are claimed.
    """

    name: str
    version: int
    identity: tuple[str, ...]
    content: tuple[str, ...] = ()
    previous: "Recipe | None" = None
    _identity: "_FieldNames" = field(init=False, repr=False, compare=False)
    _content: "_FieldNames" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_identity", _field_names(self.identity))
        object.__setattr__(self, "_content", _field_names(self.content))

    def inputs(self, fields: Mapping[str, Any]) -> list[Any]:
        """Give what the key is made of; a missing field is None."""
        return [self.name, self.version, *_pick_all(fields, self._identity)]

    def fingerprint(self, fields: Mapping[str, Any]) -> Fingerprint:
        """Hash the content fields, in the provider's words."""
        return _hash(canonical(_pick_all(fields, self._content)))

    def differing(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
        """Name the fields of identity and content in which two events differ."""
        return [
            name.lstrip("@")
            for name in (*self.identity, *self.content)
            if _picked(one, name) != _picked(other, name)
        ]


class Alias(Struct, frozen=True, gc=False):
    """A further key that leads to the same event, such as the provider's event id.

    It leads to an event that is equal in identity and content, or, where `content` names fields,
    in these: then the alias tells events apart, and the recipe's own identity need not be equal.
    """

    name: str
    value: Any
    content: tuple[str, ...] | None = None


class Identity(Struct, frozen=True, gc=False):
    """All that copies of one event are recognised by, before it is scoped and hashed."""

    recipe: Recipe
    fields: Mapping[str, Any]
    aliases: tuple[Alias, ...] = ()
    # By which recipe such events were known before another one was chosen for them.
    previous: "Identity | None" = None


class KeyScope(Struct, frozen=True, gc=False):
    """Where keys are unique: one account of one provider in one workspace."""

    workspace: str
    provider: str
    account: str

    @property
    def path(self) -> str:
        """Provider and account together, as messages are scoped."""
        return f"{self.provider}/{self.account}"

    def key(self, inputs: list[Any]) -> Key:
        """Make a key of 16 bytes; equal inputs in another scope make another key."""
        body = canonical([self.workspace, self.provider, self.account, *inputs])
        return Key(sha256(body).digest()[:KEY_BYTES])


class AliasKey(Struct, frozen=True, gc=False):
    """An alias, hashed; an event that has it is a copy only where the fingerprint is equal."""

    name: str
    key: Key
    fingerprint: Fingerprint


class Previous(Struct, frozen=True, gc=False):
    """The key by the recipe's previous version, and who holds it by the present one.

    Both are claimed. An event found under the old key alone came before the new version did and
    may be this one. Where `holder` tells that another event holds the old key, it is another.
    """

    alias: AliasKey
    holder: AliasKey


class EventKeys(Struct, frozen=True, gc=False):
    """The keys of one event: the public one first, then those that lead to it as well."""

    key: Key
    fingerprint: Fingerprint
    aliases: tuple[AliasKey, ...] = ()
    previous: Previous | None = None

    @property
    def others(self) -> tuple[AliasKey, ...]:
        if self.previous is None:
            return self.aliases
        return (*self.aliases, self.previous.alias, self.previous.holder)


def keys_of(scope: KeyScope, identity: Identity) -> EventKeys:
    """Hash an identity within its scope."""
    recipe, fields = identity.recipe, identity.fields
    key, fingerprint = scope.key(recipe.inputs(fields)), recipe.fingerprint(fields)
    before = identity.previous
    if before is None and recipe.previous is not None:
        before = Identity(recipe.previous, fields)
    if not identity.aliases and before is None:
        return EventKeys(key, fingerprint)
    aliases = tuple(
        [
            AliasKey(
                alias.name,
                scope.key(["alias", alias.name, alias.value]),
                _hash(b"alias" + key + fingerprint)
                if alias.content is None
                else _fingerprint(fields, alias.content),
            )
            for alias in identity.aliases
        ]
    )
    previous = None if before is None else _previous(scope, before, key)
    return EventKeys(key, fingerprint, aliases, previous)


def _previous(scope: KeyScope, before: Identity, key: Key) -> Previous:
    old = scope.key(before.recipe.inputs(before.fields))
    # As the previous version claims it: both versions may run at once.
    alias = AliasKey("previous_recipe", old, before.recipe.fingerprint(before.fields))
    return Previous(alias, AliasKey("holder", Key(_hash(b"holder" + old)), Fingerprint(key)))


def conflict_key(key: Key, fingerprint: Fingerprint) -> Key:
    """Give other content that came under a known key a key of its own."""
    return Key(_hash(b"conflict" + key + fingerprint))


def dead_key(workspace: str, account: str, what: bytes) -> Key:
    """Identify what cannot be read by the bytes that are equal in all copies of it."""
    scope = f"{workspace}/{account}".encode()
    return Key(_hash(b"dead" + sha256(scope).digest() + sha256(what).digest()))


def _hash(value: bytes) -> Fingerprint:
    return Fingerprint(sha256(value).digest()[:KEY_BYTES])


def _fingerprint(fields: Mapping[str, Any], names: tuple[str, ...]) -> Fingerprint:
    return _hash(canonical(_pick_all(fields, _field_names(names))))


def _picked(fields: Mapping[str, Any], name: str) -> bytes:
    return canonical(_pick_all(fields, _field_names((name,))))


class _FieldNames(Struct, frozen=True, gc=False):
    """Names of fields, and the places of those that have a mark: every event is hashed by them."""

    names: tuple[str, ...]
    # An address has its name without the mark.
    addresses: tuple[tuple[int, str], ...]
    whole: tuple[int, ...]


@lru_cache(maxsize=1024)
def _field_names(names: tuple[str, ...]) -> _FieldNames:
    numbered = list(enumerate(names))
    addresses = [(place, name[1:]) for place, name in numbered if name[0] == "@"]
    whole = [place for place, name in numbered if name == WHOLE_ELEMENT]
    return _FieldNames(names, tuple(addresses), tuple(whole))


def _pick_all(fields: Mapping[str, Any], names: _FieldNames) -> list[Any]:
    picked: list[Any] = [*map(fields.get, names.names)]
    for place, name in names.addresses:
        value = fields.get(name)
        picked[place] = value.strip().casefold() if isinstance(value, str) else value
    for place in names.whole:
        picked[place] = fields
    return picked


# For what a provider says that fits none of its recipes: its bytes' meaning is all we know of it.
WHOLE = Recipe(name="whole", version=1, identity=(WHOLE_ELEMENT,))
