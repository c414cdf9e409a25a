"""Render templates beside the event loop, in a process that is stopped when it takes too long.

There is one such process, started when it is first needed. It works on one order at a time; others
wait for their turn. What goes wrong in it costs the order that it had, and nobody else.
"""

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import mailonce
from mailonce.errors import RefusedError, UnavailableError
from mailonce.send.render_messages import RenderAnswer, RenderedMail, RenderOrder

ORDERS_MAX = 200
ANSWER_BYTES_MAX = 256 << 20
START_S_MAX = 20.0
_HELLO = RenderOrder(subject="hello", html=None, text="hello")
_ANSWER = msgspec.msgpack.Decoder(RenderAnswer)


class TemplateError(RefusedError):
    """A template cannot be rendered as it is."""

    code = "template"


class Renderer:
    """Renders templates; `limit_s` is how long one order may take."""

    def __init__(self, *, limit_s: float) -> None:
        self._limit_s = limit_s
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def check(self, *, subject: str, html: str | None, text: str | None) -> None:
        """See that a template can be read.

        Raises: TemplateError, one sentence that says what is wrong.
        """
        await self._ask(RenderOrder(subject=subject, html=html, text=text))

    async def render(
        self,
        *,
        subject: str,
        html: str | None,
        text: str | None,
        variables: Sequence[Mapping[str, Any]],
    ) -> tuple[RenderedMail, ...]:
        """Render a mail for each set of variables; without `text` it is made of the HTML.

        Raises: TemplateError, one sentence that says what is wrong; UnavailableError.
        """
        given = tuple(dict(one) for one in variables)
        order = RenderOrder(subject=subject, html=html, text=text, variables=given)
        return (await self._ask(order)).mails

    async def text_of(self, html: str) -> str:
        """Make the text of a mail that has HTML alone."""
        answer = await self._ask(RenderOrder(subject="", html=html, text=None, is_plain=True))
        return answer.mails[0].text or ""

    async def close(self) -> None:
        """End the process."""
        async with self._turn:
            await self._stop()

    async def _ask(self, order: RenderOrder) -> RenderAnswer:
        if self._waiting >= ORDERS_MAX:
            raise UnavailableError("too many templates wait to be rendered; try again in a moment")
        self._waiting += 1
        try:
            async with self._turn:
                answer = await self._answer(order)
        finally:
            self._waiting -= 1
        if answer.trouble is not None:
            raise TemplateError(f"the template cannot be rendered: {answer.trouble}")
        return answer

    async def _answer(self, order: RenderOrder) -> RenderAnswer:
        process = self._process or await self._start()
        try:
            async with asyncio.timeout(self._limit_s):
                return await _exchange(process, msgspec.msgpack.encode(order))
        except TimeoutError:
            await self._stop()
            trouble = f"it takes longer than {self._limit_s:g} s; make it simpler"
            return RenderAnswer(trouble=trouble)
        except (EOFError, OSError, asyncio.IncompleteReadError, msgspec.MsgspecError):
            # It died of the order: of memory that it did not get, most likely.
            await self._stop()
            return RenderAnswer(trouble="it needs too much memory; make it shorter")
        except BaseException:
            # The answer to a caller that went away must not be taken for the next one's.
            await self._stop()
            raise

    async def _start(self) -> asyncio.subprocess.Process:
        folder = str(Path(mailonce.__file__).parents[1])
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "mailonce.send.render_child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # No secret of ours is its business.
            env={"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            limit=1 << 20,
        )
        # The first answer says that it has started, which takes longer than an order may.
        try:
            async with asyncio.timeout(START_S_MAX):
                await _exchange(self._process, msgspec.msgpack.encode(_HELLO))
        except (TimeoutError, EOFError, OSError) as error:
            await self._stop()
            raise UnavailableError("templates cannot be rendered now; try again") from error
        return self._process

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _exchange(process: asyncio.subprocess.Process, order: bytes) -> RenderAnswer:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(len(order).to_bytes(4, "big") + order)
    await process.stdin.drain()
    size = int.from_bytes(await process.stdout.readexactly(4), "big")
    if size > ANSWER_BYTES_MAX:
        raise EOFError
    return _ANSWER.decode(await process.stdout.readexactly(size))
