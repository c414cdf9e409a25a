"""Characters that nobody sees: zero-width, direction marks, tags, fillers and controls.

They split words so that filters miss them, or carry text that only a machine reads (Unicode tag
characters spell ASCII invisibly). They are removed wherever mail is shown or searched.
"""

import re

# Removed without a trace. The ranges follow Unicode's Default_Ignorable_Code_Point, to which we
# add controls, interlinear annotations and what is never drawn in mail.
_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls, but for tab and line ends
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_REVERSED = re.compile("\u202e[^\u202c\n\r]*")
_LINE_END = re.compile("\r\n|[\r\x0c\x85\u2028\u2029]")


def remove_invisible(text: str) -> str:
    """Remove characters that nobody sees, and write every line end as a newline.

    Half of a surrogate pair becomes U+FFFD, so that the result can always be encoded.
    """
    text = _SURROGATE.sub("\ufffd", text)
    return _INVISIBLE.sub("", _LINE_END.sub("\n", text))


def remove_reversed(text: str) -> str:
    """Remove what is written backwards by a right-to-left override, up to where that ends.

    Whoever looks for a value needs this: what a person sees is not what stands there.
    """
    return _REVERSED.sub("", text)
