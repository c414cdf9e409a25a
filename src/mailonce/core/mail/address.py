"""Addresses of recipients: how they are written does not decide which inbox is meant."""

from msgspec import Struct

from mailonce.core.mail.domain_name import LABEL_CHARS_MAX, domain_in_ascii

LOCAL_CHARS_MAX = 64
DOMAIN_CHARS_MAX = 253


class MailAddress(Struct, frozen=True, gc=False):
    """An address in the one spelling by which inboxes are known.

    Case does not count, the domain is ASCII (IDNA), and what stands behind a plus sign is a tag.
    """

    local: str
    domain: str

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}"

    @property
    def tag(self) -> str | None:
        """The part behind the first plus sign, if there is one."""
        base, plus, tag = self.local.partition("+")
        return tag if plus and base else None

    @property
    def untagged(self) -> "MailAddress":
        """The same address without its tag."""
        base = self.local.partition("+")[0]
        return MailAddress(base, self.domain) if base else self


def read_address(text: str) -> MailAddress | None:
    """Read an address as it stands in an envelope; None where it is none.

    A quoted local part is taken for what it means: `"ann"@example.com` is ann@example.com.
    """
    local, at, domain = text.strip().removeprefix("<").removesuffix(">").rpartition("@")
    if len(local) >= 2 and local[0] == local[-1] == '"':
        local = _unquoted(local[1:-1])
    name = read_domain(domain)
    local = local.lower()
    is_local = 0 < len(local) <= LOCAL_CHARS_MAX and local.isprintable() and " " not in local
    return MailAddress(local, name) if at and name is not None and is_local else None


def read_domain(text: str) -> str | None:
    """Give a domain in lower-case ASCII; None where it is none."""
    domain = domain_in_ascii(text)
    if domain is None:
        return None
    labels = domain.split(".")
    is_domain = 0 < len(domain) <= DOMAIN_CHARS_MAX and all(map(_is_label, labels))
    return domain if is_domain else None


def _is_label(label: str) -> bool:
    letters = label.replace("-", "").replace("_", "")
    return (
        0 < len(label) <= LABEL_CHARS_MAX
        and letters.isalnum()
        and letters.isascii()
        and label.strip("-") == label
    )


def _unquoted(text: str) -> str:
    plain, quotes = [], False
    for char in text:
        if char == "\\" and not quotes:
            quotes = True
            continue
        plain.append(char)
        quotes = False
    return "".join(plain)
