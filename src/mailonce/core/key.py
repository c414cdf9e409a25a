"""Keys: the content-only identity by which copies of an event are known."""

from collections.abc import Mapping
from dataclasses import dataclass
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

    def inputs(self, fields: Mapping[str, Any]) -> list[Any]:
        """Give what the key is made of; a missing field is None."""
        return [self.name, self.version, *_pick_all(fields, self.identity)]

    def fingerprint(self, fields: Mapping[str, Any]) -> Fingerprint:
        """Hash the content fields, in the provider's words."""
        picked = canonical(_pick_all(fields, self.content))
        return Fingerprint(sha256(picked).digest()[:KEY_BYTES])

    def differing(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
        """Name the content fields in which two copies differ."""
        return [
            name.lstrip("@")
            for name in self.content
            if canonical(_pick(one, name)) != canonical(_pick(other, name))
        ]


class Alias(Struct, frozen=True, gc=False):
    """A further key that leads to the same event, such as the provider's event id."""

    name: str
    value: Any


class Identity(Struct, frozen=True, gc=False):
    """All that copies of one event are recognised by, before it is scoped and hashed."""

    recipe: Recipe
    fields: Mapping[str, Any]
    aliases: tuple[Alias, ...] = ()


class Scope(Struct, frozen=True, gc=False):
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


class Keys(Struct, frozen=True, gc=False):
    """The keys of one event: the public one first, then its aliases, with their names."""

    key: Key
    fingerprint: Fingerprint
    aliases: tuple[tuple[str, Key], ...] = ()


def keys_of(scope: Scope, identity: Identity) -> Keys:
    """Hash an identity within its scope."""
    recipe, fields = identity.recipe, identity.fields
    key, fingerprint = scope.key(recipe.inputs(fields)), recipe.fingerprint(fields)
    if not identity.aliases and recipe.previous is None:
        return Keys(key, fingerprint)
    aliases = [
        (alias.name, scope.key(["alias", alias.name, alias.value])) for alias in identity.aliases
    ]
    if recipe.previous is not None:
        aliases.append(("previous_recipe", scope.key(recipe.previous.inputs(fields))))
    return Keys(key, fingerprint, tuple(aliases))


def conflict_key(key: Key, fingerprint: Fingerprint) -> Key:
    """Give other content that came under a known key a key of its own."""
    return Key(sha256(b"conflict" + key + fingerprint).digest()[:KEY_BYTES])


def _pick_all(fields: Mapping[str, Any], names: tuple[str, ...]) -> list[Any]:
    get = fields.get
    return [_pick(fields, name) if name[0] in "@*" else get(name) for name in names]


def _pick(fields: Mapping[str, Any], name: str) -> Any:
    if name == WHOLE_ELEMENT:
        return fields
    if name[0] == "@":
        value = fields.get(name[1:])
        return value.strip().casefold() if isinstance(value, str) else value
    return fields.get(name)


# For what a provider says that fits none of its recipes: its bytes' meaning is all we know of it.
WHOLE = Recipe(name="whole", version=1, identity=(WHOLE_ELEMENT,))
