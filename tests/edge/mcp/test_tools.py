"""The list of tools: small, true, and no longer than a key allows."""

import json

import jsonschema
import pytest
from mcp import Client

from mailonce.client import AsyncClient
from mailonce.client.async_driver import AsyncBody
from mailonce.client.steps import ApiAnswer, ApiRequest
from mailonce.core.access import Scope
from mailonce.core.expectations.redemption import RedemptionState
from mailonce.edge.mcp import next_steps
from mailonce.edge.mcp.run_tool import _RUNS, run_tool
from mailonce.edge.mcp.server import McpCaller, RequestContext, build_server
from mailonce.edge.mcp.tools import TOOLS, tools_of

LIST_BYTES_MAX = 8_000
OWN = [
    "open_expectation",
    "await_artifact",
    "consume_artifact",
    "redeem_link",
    "report_result",
    "may_resend",
    "explain_expectation",
]


async def listed(scope: Scope) -> list[dict[str, object]]:
    async def find_caller(context: RequestContext) -> McpCaller:
        del context
        return McpCaller(client=AsyncClient("http://127.0.0.1:1", "key"), scope=scope)

    async with Client(build_server(find_caller, version="1")) as client:
        answer = await client.list_tools()
        return [
            one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in answer.tools
        ]


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        (Scope.AGENT, OWN),
        (Scope.OPERATOR, [*OWN, "list_messages", "read_message"]),
        (Scope.READER, ["await_artifact", "explain_expectation", "list_messages", "read_message"]),
        (Scope.SENDER, []),
    ],
)
async def test_a_key_has_the_tools_that_it_may_use(scope: Scope, names: list[str]) -> None:
    tools = await listed(scope)

    assert [tool["name"] for tool in tools] == names
    assert len(json.dumps({"tools": tools})) < LIST_BYTES_MAX


def test_a_child_key_opens_no_expectation() -> None:
    names = [tool.name for tool in tools_of(Scope.AGENT, is_child=True)]

    assert names == OWN[1:]


async def test_annotations_are_true() -> None:
    tools = {str(tool["name"]): tool["annotations"] for tool in await listed(Scope.OPERATOR)}

    reads = {name for name, hints in tools.items() if hints["readOnlyHint"]}  # type: ignore[index]
    assert reads == {"await_artifact", "explain_expectation", "list_messages", "read_message"}
    assert all(hints["idempotentHint"] for hints in tools.values())  # type: ignore[index]
    reaching = {name for name, hints in tools.items() if hints["openWorldHint"]}  # type: ignore[index]
    assert reaching == {"redeem_link"}


def test_each_tool_has_a_schema_and_a_run() -> None:
    assert set(_RUNS) == {tool.name for tool in TOOLS}
    for tool in TOOLS:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert set(tool.required) <= set(tool.parameters)


def test_each_state_has_a_next_step() -> None:
    states = "pending ready ambiguous quarantined exhausted expired consumed"

    assert set(next_steps.OF_STATES) == set(states.split())
    redemptions = {state.value for state in RedemptionState} - {RedemptionState.STARTED}
    assert set(next_steps.OF_REDEMPTIONS) == redemptions | {"redeeming"}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_message", {}, "there is no such tool"),
        ("await_artifact", {}, "`expectation` is missing"),
        ("await_artifact", {"expectation": "exp_../../keys"}, "does not fit pattern"),
        ("await_artifact", {"expectation": "exp_" + "0" * 32, "max_wait_s": 26}, "maximum"),
        ("may_resend", {"expectation": "exp_" + "0" * 32, "number": 0}, "minimum"),
    ],
)
async def test_a_call_that_cannot_be_is_answered_with_what_to_do(
    name: str, arguments: dict[str, object], words: str
) -> None:
    async def find_caller(context: RequestContext) -> McpCaller:
        del context
        return McpCaller(client=AsyncClient("http://127.0.0.1:1", "key"), scope=Scope.AGENT)

    async with Client(build_server(find_caller, version="1")) as client:
        answer = await client.call_tool(name, arguments)

    assert answer.is_error
    assert words in str(answer.structured_content)


class PendingWire:
    """An API that is about to stop: it ends every wait at once."""

    def __init__(self, **fields: object) -> None:
        self.paths: list[str] = []
        self.fields = {"id": "exp_1", "state": "pending", "artifact": None} | fields

    async def exchange(self, request: ApiRequest, timeout_s: float) -> ApiAnswer:
        del timeout_s
        self.paths.append(request.path)
        return ApiAnswer(200, {}, json.dumps(self.fields).encode())

    async def open(self, request: ApiRequest, timeout_s: float) -> tuple[ApiAnswer, AsyncBody]:
        raise AssertionError(f"tools follow no streams: {request.path} {timeout_s}")

    async def close(self) -> None:
        """Nothing is open."""


async def test_a_wait_is_one_request_so_that_a_server_can_stop() -> None:
    wire = PendingWire()
    client = AsyncClient("http://mailonce", wire=wire)

    result = await run_tool(client, "await_artifact", {"expectation": "exp_1", "max_wait_s": 25})

    assert result.status == "pending"
    assert wire.paths == ["/v1/expectations/exp_1?wait=25.0"]


async def test_a_mail_that_is_held_back_is_waited_behind_until_the_deadline() -> None:
    steps = []
    for waiting in (True, False):
        wire = PendingWire(state="quarantined", waiting=waiting)
        client = AsyncClient("http://mailonce", wire=wire)
        result = await run_tool(client, "await_artifact", {"expectation": "exp_1"})
        assert (result.status, result.is_waiting) == ("quarantined", waiting)
        steps.append(result.next_step)

    assert steps == [next_steps.HELD_BACK, next_steps.OF_STATES["quarantined"]]


async def test_what_was_confirmed_is_not_to_be_used_again() -> None:
    taken = {"artifact": {"id": "art_1", "kind": "code", "value": "123456"}, "confirmed_at": "then"}
    client = AsyncClient("http://mailonce", wire=PendingWire(**taken))

    result = await run_tool(
        client, "consume_artifact", {"expectation": "exp_1", "consume_key": "run-1"}
    )

    assert result.content["confirmed_at"] == "then"
    assert result.next_step == next_steps.CONFIRMED
