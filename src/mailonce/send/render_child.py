"""Render templates in a process of its own: `python -m mailonce.send.render_child`.

A template may loop, and grow without end, in ways that no sandbox counts; a process can be stopped.
It reads one order after the other from standard input and answers each on standard output, both as
msgpack behind four bytes of length. It has no secrets, no environment and little memory; whoever
started it stops it when an answer takes too long.
"""

import resource
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec
from jinja2 import StrictUndefined, Template, TemplateError, UndefinedError, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from msgspec import Struct

from mailonce.core.sends.mail_content import UNSUBSCRIBE_PLACE
from mailonce.core.sends.plain_text import text_of_html
from mailonce.send.render_messages import RenderAnswer, RenderedMail, RenderOrder

MEMORY_BYTES_MAX = 512 << 20
OUTPUT_CHARS_MAX = 1_000_000
STEPS_MAX = 200_000
# Of a text that is repeated or padded.
GROWN_CHARS_MAX = 100_000
TEMPLATES_KEPT = 200

# The filter that counts the rounds of a loop; and what makes long texts out of short ones.
_ROUNDS = "mailonce_rounds"
_GROWING = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs"})
_GLOBALS = ("lipsum", "cycler", "joiner", "dict", "namespace")
_FILTERS = ("center", "indent", "format", "pprint", "xmlattr", "filesizeformat")


class _TooMuchError(Exception):
    """A template takes more steps or more room than it may."""


class _Budget:
    """The steps that are left to one mail."""

    def __init__(self) -> None:
        self.left = STEPS_MAX

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooMuchError(f"it takes more than {STEPS_MAX} steps; loop over less")


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox that counts: every round of a loop, every call, and what multiplies a text."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self, *, autoescape: bool) -> None:
        super().__init__(
            autoescape=autoescape,
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            cache_size=0,
        )
        self.budget = _Budget()
        for name in _GLOBALS:
            self.globals.pop(name, None)
        for name in _FILTERS:
            self.filters.pop(name, None)
        self.filters[_ROUNDS] = self._rounds

    def _rounds(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.budget.spend()
            yield value

    def call(self, context: Any, function: Any, *given: Any, **named: Any) -> Any:
        """Call what the sandbox allows, and count it."""
        self.budget.spend()
        if getattr(function, "__name__", "") in _GROWING and any(
            isinstance(one, int) and one > GROWN_CHARS_MAX for one in (*given, *named.values())
        ):
            raise _TooMuchError(f"it makes a text of more than {GROWN_CHARS_MAX} characters")
        return super().call(context, function, *given, **named)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute, unless the result would be huge."""
        self.budget.spend()
        if operator == "**":
            raise _TooMuchError("it computes a power, which templates cannot")
        if operator == "%" and isinstance(left, str | bytes):
            raise _TooMuchError("it formats with %; use a filter such as round instead")
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                is_repeated = isinstance(one, str | bytes | list | tuple)
                if is_repeated and isinstance(other, int) and len(one) * other > GROWN_CHARS_MAX:
                    raise _TooMuchError("it repeats a text too often")
        return super().call_binop(context, operator, left, right)


def main() -> None:
    """Answer orders until nobody asks any more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, target = sys.stdin.buffer, sys.stdout.buffer
    read = msgspec.msgpack.Decoder(RenderOrder)
    while (order := _read(source)) is not None:
        answer = msgspec.msgpack.encode(answer_to(read.decode(order)))
        target.write(len(answer).to_bytes(4, "big") + answer)
        target.flush()


def answer_to(order: RenderOrder) -> RenderAnswer:
    """Render, or say what is wrong."""
    try:
        if order.is_plain:
            text = text_of_html(order.html or "")
            return RenderAnswer(mails=(RenderedMail(subject="", html=None, text=text),))
        parts = _compiled(order.subject, order.html, order.text)
        return RenderAnswer(mails=tuple(_mail(parts, one) for one in order.variables))
    except TemplateSyntaxError as error:
        return _trouble(f"line {error.lineno}: {error.message}")
    except UndefinedError as error:
        return _trouble(f"{error.message}; give it in `variables`")
    except SecurityError as error:
        return _trouble(f"{error}; templates cannot reach that")
    except _TooMuchError as error:
        return _trouble(str(error))
    except MemoryError:
        return _trouble("it needs too much memory; make it shorter")
    except RecursionError:
        return _trouble("it calls itself too deep; make it flatter")
    except (TemplateError, ArithmeticError, TypeError, ValueError, LookupError) as error:
        return _trouble(f"{type(error).__name__}: {error}")


def _trouble(what: str) -> RenderAnswer:
    return RenderAnswer(trouble=" ".join(what.split())[:300])


class _Parts(Struct, frozen=True):
    subject: Template
    html: Template | None
    text: Template | None


@lru_cache(maxsize=TEMPLATES_KEPT)
def _compiled(subject: str, html: str | None, text: str | None) -> _Parts:
    plain, markup = _Environment(autoescape=False), _Environment(autoescape=True)
    return _Parts(
        _compile(plain, subject),
        None if html is None else _compile(markup, html),
        None if text is None else _compile(plain, text),
    )


def _compile(environment: _Environment, source: str) -> Template:
    """Compile, with a counter around what each loop goes through."""
    tree = environment.parse(source)
    for loop in tree.find_all(nodes.For):
        loop.iter = nodes.Filter(loop.iter, _ROUNDS, [], [], None, None)
    code = environment.compile(tree)
    return Template.from_code(environment, code, environment.make_globals(None))


def _mail(parts: _Parts, variables: Mapping[str, Any]) -> RenderedMail:
    given = {"unsubscribe_url": UNSUBSCRIBE_PLACE, **variables}
    html = None if parts.html is None else _rendered(parts.html, given)
    text = None if parts.text is None else _rendered(parts.text, given)
    if text is None and html is not None:
        text = text_of_html(html)
    return RenderedMail(subject=_rendered(parts.subject, given).strip(), html=html, text=text)


def _rendered(template: Template, variables: Mapping[str, Any]) -> str:
    environment = template.environment
    assert isinstance(environment, _Environment), "templates are compiled here"
    environment.budget = _Budget()
    chars = 0
    pieces: list[str] = []
    for piece in template.generate(**variables):
        environment.budget.spend()
        chars += len(piece)
        if chars > OUTPUT_CHARS_MAX:
            raise _TooMuchError(f"it makes more than {OUTPUT_CHARS_MAX} characters")
        pieces.append(piece)
    return "".join(pieces)


def _read(source: BinaryIO) -> bytes | None:
    head = source.read(4)
    return source.read(int.from_bytes(head, "big")) if len(head) == 4 else None


if __name__ == "__main__":
    main()
