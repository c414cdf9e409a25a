"""Join the soft-broken lines of `format=flowed` text (RFC 3676)."""

_QUOTE = ">"


def unflow(text: str, *, deletes_space: bool) -> str:
    """Make each paragraph one line; quoted lines keep their marks, signatures stay as they are."""
    lines: list[str] = []
    paragraph: list[str] = []
    paragraph_depth = 0
    for line in text.split("\n"):
        content = line.lstrip(_QUOTE)
        depth = len(line) - len(content)
        content = content.removeprefix(" ")
        is_signature = content == "-- "
        if paragraph and (depth != paragraph_depth or is_signature):
            lines.append(_marked(paragraph_depth, "".join(paragraph)))
            paragraph = []
        if content.endswith(" ") and not is_signature:
            paragraph.append(content[:-1] if deletes_space else content)
            paragraph_depth = depth
            continue
        lines.append(_marked(depth, "".join([*paragraph, content])))
        paragraph = []
    if paragraph:
        lines.append(_marked(paragraph_depth, "".join(paragraph)))
    return "\n".join(lines)


def _marked(depth: int, text: str) -> str:
    return f"{_QUOTE * depth} {text}" if depth else text
