"""All that an agent's key reaches over MCP: each tool that the server lists, called as a model may.

The requests are written by hand, so that every byte of an answer is seen.
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx

from mailonce.edge.mcp import next_steps
from tests.acceptance.expecting import Agent

# What stands for each parameter of a tool; a new one must be given something here.
ARGUMENTS: dict[str, Any] = {
    "kind": "code",
    "idempotency_key": "tools",
    "max_wait_s": 0,
    "consume_key": "tool-1",
    "accepted": False,
    "number": 1,
}
# Those that narrow what is expected may be left out.
LEFT_OUT = {
    "senders",
    "subject_contains",
    "code_format",
    "link_hosts",
    "states",
    "deadline_s",
    "inbox",
}
# Of which a server may have nothing: what it lists is called in the same way.
LISTS = ("resources/list", "resources/templates/list", "prompts/list")
STEPS = {
    *next_steps.OF_STATES.values(),
    *next_steps.OF_REDEMPTIONS.values(),
    *(value for name, value in vars(next_steps).items() if name.isupper() and type(value) is str),
}
# Sentences that name a number of ours, a tool, or a parameter of the caller's own request.
WRITTEN = re.compile(
    r"not yet: call await_artifact, and ask again in [0-9.e+]+ s"
    r"|there is no such tool; use one of [a-z_, ]+"
    r"|`[a-z_`, ]+` (?:is|are) missing; [a-z_]+ needs (?:`[a-z_`, ]+`|it for the kind [a-z]+)"
    r"|(?:an argument|`[a-z_]+`) is not known; [a-z_]+ takes `[a-z_`, ]+`"
    r"|`[a-z_.0-9]+` of [a-z_]+ (?:is one of [a-z, ]+; use one|must be [a-z ]+; change it)"
    r"|`[a-z_.0-9]+` of [a-z_]+ does not fit [a-zA-Z]+ [!-~]+; change it"
    r"|`link_hosts` has '[!-&(-~]{1,200}', which is not within the setting expectations\.link_hosts"
    r", all that an agent's key may name; whoever runs the server can add it there, word for word"
    r"|Method not found"
)


def ask(agent: Agent, method: str, **params: Any) -> httpx.Response:
    """Send one request of the protocol."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    return agent.call("POST", "/mcp", body, headers=headers)


def call(agent: Agent, name: str, **arguments: Any) -> httpx.Response:
    return ask(agent, "tools/call", name=name, arguments=arguments)


def walk(agent: Agent, expectation: str, inbox: str, message: str) -> Iterator[httpx.Response]:
    """Call each tool of the key, and two that it has not; what takes a value, also as another."""
    listed = ask(agent, "tools/list").json()["result"]["tools"]
    assert {"await_artifact", "explain_expectation"} <= {one["name"] for one in listed}
    for consume_key in ("tool-1", "tool-2"):
        for tool in listed:
            given = {**ARGUMENTS, "expectation": expectation, "consume_key": consume_key}
            names = set(tool["inputSchema"]["properties"]) - LEFT_OUT
            assert names <= set(given), f"{tool['name']} has a parameter that no test gives"
            if consume_key == ARGUMENTS["consume_key"] or "consume_key" in names:
                yield call(agent, tool["name"], **{name: given[name] for name in names})
    yield call(agent, "explain_expectation", expectation=expectation)
    yield call(agent, "await_artifact", expectation=expectation, max_wait_s="soon")
    yield call(agent, "list_messages", inbox=inbox)
    yield call(agent, "read_message", inbox=inbox, message=message)


def walk_lists(agent: Agent, expectation: str, message: str) -> Iterator[httpx.Response]:
    """Ask for what is no tool; what is listed one day must be walked as tools are."""
    for method in LISTS:
        answer = ask(agent, method)
        assert answer.json().get("error", {}).get("code") == -32601, f"{method} is not walked"
        yield answer
    for uri in (f"mailonce://expectation/{expectation}", f"mailonce://message/{message}"):
        yield ask(agent, "resources/read", uri=uri)
    yield ask(agent, "prompts/get", name=message, arguments={"expectation": expectation})
    reference = {"type": "ref/resource", "uri": f"mailonce://message/{message}"}
    yield ask(agent, "completion/complete", ref=reference, argument={"name": "a", "value": ""})
    client = {"name": "agent", "version": "1"}
    for version in ("2025-06-18", "2026-07-28"):
        named = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        yield ask(agent, "initialize", **named)
    yield ask(agent, "server/discover")
