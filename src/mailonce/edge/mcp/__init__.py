"""The MCP door: expectations as tools for agents, over stdio and over HTTP.

Rule: A tool asks the API with the caller's own key, so it can do nothing that the key cannot.
Imports: `client`, `core`, `errors`.
"""
