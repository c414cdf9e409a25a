"""The gate's pure rules: claims, decisions, answers and the policy.

Rule: No driver, no framework, no waiting.
Imports: `core`, `errors`.
"""
