"""Search agents: one engine, several policies that choose the next action, tools over an index and the web."""
