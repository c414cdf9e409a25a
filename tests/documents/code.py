"""Run the Python of a block, in a namespace with what the page calls the reader's own."""

import ast
from typing import Any

from tests.documents.blocks import Block, find_block

# A secret that could work.
SECRET = "whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI="


def run_block(name: str, /, *replacements: tuple[str, str], **names: Any) -> dict[str, Any]:
    """Run a block; give the names that it leaves. Each replacement must have something to do."""
    block = find_block(name)
    namespace: dict[str, Any] = {"__name__": "documented", **names}
    exec(compile(_text(block, replacements), f"{block.page}:{block.line}", "exec"), namespace)
    return namespace


async def run_awaiting(name: str, /, *replacements: tuple[str, str], **names: Any) -> Any:
    """Run a block that awaits at its top level."""
    block = find_block(name)
    namespace: dict[str, Any] = {"__name__": "documented", **names}
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(_text(block, replacements), f"{block.page}:{block.line}", "exec", flags=flags)
    await eval(code, namespace)
    return namespace


def commented_values(name: str) -> list[tuple[str, str]]:
    """Give the expressions of a block that stand beside their value in a comment."""
    lines = [line.partition("  # ") for line in find_block(name).text.splitlines()]
    return [(code.strip(), value.strip()) for code, _, value in lines if value and _is_value(code)]


def _is_value(code: str) -> bool:
    try:
        ast.parse(code.strip(), mode="eval")
    except SyntaxError:
        return False
    return True


def _text(block: Block, replacements: tuple[tuple[str, str], ...]) -> str:
    text = block.text
    for old, new in replacements:
        assert old in text, f"{block.name} has no {old!r}"
        text = text.replace(old, new)
    return text
