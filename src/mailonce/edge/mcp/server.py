"""The MCP server: lists the tools that a key has, and runs them.

A wait is held for 25 s at most, since hosts and proxies give up on longer ones. Clients that know
how (protocol 2026-07-28) are told to ask again, and do so without their model: it sees one call
that lasted. What they send back is a count of rounds, and nothing depends on it but when the model
is asked, so it needs no seal and outlives a restart of the server. Other clients get `pending`.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mailonce.client.async_client import AsyncClient
from mailonce.core.access import Scope
from mailonce.edge.mcp.check_arguments import check_arguments
from mailonce.edge.mcp.run_tool import ToolResult, run_tool
from mailonce.edge.mcp.tools import RESULT_SCHEMA, ToolRecord, tools_of
from mailonce.errors import MailonceError, MissingError

# The official client gives up after ten.
ROUNDS_MAX = 8
INSTRUCTIONS = (
    "Codes and links from mail, each used once: open_expectation, have the mail sent to its "
    "address, await_artifact, consume_artifact, report_result. Follow `next_step`."
)

RequestContext = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCaller:
    """Who calls: a client that has the caller's key, and what the key may do."""

    client: AsyncClient
    scope: Scope
    is_child: bool = False

    def tools(self) -> list[ToolRecord]:
        return tools_of(self.scope, is_child=self.is_child)


FindCaller = Callable[[RequestContext], Awaitable[McpCaller]]


def build_server(
    find_caller: FindCaller, *, version: str, find_lister: FindCaller | None = None
) -> "Server[Any]":
    """Build the server; `find_caller` says who calls, and raises MailonceError for strangers.

    `find_lister` is for the list of tools, for which hosts wait before they show anything.
    """

    async def list_tools(
        context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del params
        try:
            caller = await (find_lister or find_caller)(context)
        except MailonceError as error:
            # Of any other error the newer protocol shows none of its words.
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        return types.ListToolsResult(tools=[_tool(one) for one in caller.tools()])

    async def call_tool(
        context: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            caller = await find_caller(context)
            arguments = _checked(caller, params)
        except MailonceError as error:
            return _answer(ToolResult(error.code, str(error), is_error=True))
        result = await run_tool(caller.client, params.name, arguments)
        round_ = _round_of(params.request_state) + 1
        if _goes_on(context, params.name, arguments, result) and round_ <= ROUNDS_MAX:
            return types.InputRequiredResult(request_state=str(round_))
        return _answer(result)

    return Server(
        "mailonce",
        version=version,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(record: ToolRecord) -> types.Tool:
    return types.Tool(
        name=record.name,
        description=record.about,
        input_schema=record.input_schema,
        output_schema=dict(RESULT_SCHEMA),
        annotations=types.ToolAnnotations(
            read_only_hint=record.is_read_only,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=record.is_open_world,
        ),
    )


def _checked(caller: McpCaller, params: types.CallToolRequestParams) -> dict[str, Any]:
    """Give the arguments of a call, where the caller has the tool and they fit its schema."""
    tools = {one.name: one for one in caller.tools()}
    tool = tools.get(params.name)
    if tool is None:
        raise MissingError(f"there is no such tool; use one of {', '.join(tools) or 'none'}")
    arguments = params.arguments or {}
    check_arguments(tool, arguments)
    return arguments


def _goes_on(
    context: RequestContext, name: str, arguments: dict[str, Any], result: ToolResult
) -> bool:
    """Say whether the client should ask again by itself."""
    can = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    waits = name == "await_artifact" and arguments.get("max_wait_s") != 0
    return can and waits and result.is_waiting


def _round_of(state: str | None) -> int:
    """Read the count of rounds; whoever sends another only hurts its own wait."""
    return int(state) if state is not None and state.isascii() and state.isdigit() else 0


def _answer(result: ToolResult) -> types.CallToolResult:
    content = result.content
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=json.dumps(content))],
        structured_content=content,
        is_error=result.is_error,
    )
