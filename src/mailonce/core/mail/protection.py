"""Whether a mail is signed or encrypted, and by which standard; signatures are not judged here."""

from typing import Literal

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.mime import signed_data
from mailonce.core.mail.mime.part_tree import MailPart, read_part_tree
from mailonce.core.mail.mime.transfer_encoding import decode_transfer
from mailonce.core.mail.problem import MailProblem

Standard = Literal["smime", "pgp"]
# A signature in a signature is odd, a longer chain is an attack.
LAYERS_MAX = 3

_CMS_TYPES = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_SIGNED_TEXT = "-----BEGIN PGP SIGNED MESSAGE-----"
_ENCRYPTED_TEXT = "-----BEGIN PGP MESSAGE-----"
_SIGNATURE_TEXT = "-----BEGIN PGP SIGNATURE-----"


class Protection(Struct, frozen=True, kw_only=True, gc=False):
    """The standard by which a mail is signed, and that by which it is encrypted."""

    signed: Standard | None = None
    encrypted: Standard | None = None


def unwrap(root: MailPart, budget: DigestBudget) -> tuple[MailPart, Protection]:
    """Give the part that was signed, where its signature wraps it, and say what protects it."""
    signed: Standard | None = None
    encrypted: Standard | None = None
    for _ in range(LAYERS_MAX):
        if root.type not in _CMS_TYPES or root.children:
            break
        content = _cms_content(root, budget)
        kind = signed_data.content_kind(content)
        if kind in {signed_data.ENVELOPED_DATA, signed_data.AUTH_ENVELOPED_DATA}:
            encrypted = "smime"
            break
        inner = signed_data.signed_content(content)
        if inner is None:
            budget.note(MailProblem.BAD_SIGNED_DATA)
            break
        signed = "smime"
        root = read_part_tree(inner, budget)
    protection = _of_multiparts(root)
    return root, Protection(
        signed=signed or protection.signed, encrypted=encrypted or protection.encrypted
    )


def of_text(text: str) -> tuple[str, Protection]:
    """Take PGP's armour off a signed text, and say what protects it."""
    start = text.find("-----BEGIN PGP ")
    if start < 0 or text[:start].strip():
        # In the middle of a text it is a quotation, or an attached key.
        return text, Protection()
    if text.startswith(_ENCRYPTED_TEXT, start):
        return text, Protection(encrypted="pgp")
    if not text.startswith(_SIGNED_TEXT, start):
        return text, Protection()
    _, _, content = text[start:].partition("\n\n")
    content, mark, _ = content.partition(_SIGNATURE_TEXT)
    if not mark:
        return text, Protection()
    lines = (line.removeprefix("- ") for line in content.split("\n"))
    return "\n".join(lines).rstrip("\n") + "\n", Protection(signed="pgp")


def _cms_content(part: MailPart, budget: DigestBudget) -> bytes:
    if not budget.take_decoded(part.end - part.start):
        return b""
    return decode_transfer(part.encoded, part.transfer_encoding, budget)


def _of_multiparts(root: MailPart) -> Protection:
    """Look at the outermost multiparts: a list may have wrapped a signed mail once."""
    signed: Standard | None = None
    encrypted: Standard | None = None
    for part in (root, *root.children):
        protocol = part.parameters.get("protocol", "").lower()
        standard: Standard = "pgp" if "pgp" in protocol else "smime"
        if part.type == "multipart/signed" and part.children:
            signed = standard
        elif part.type == "multipart/encrypted" and part.children:
            encrypted = standard
        elif part.type in _CMS_TYPES and part is not root:
            kind = part.parameters.get("smime-type", "").lower()
            if kind == "signed-data":
                signed = signed or "smime"
            elif kind in {"enveloped-data", "authenveloped-data"}:
                encrypted = encrypted or "smime"
    return Protection(signed=signed, encrypted=encrypted)
