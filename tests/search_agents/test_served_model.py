"""`auto` with a real model behind `transformers serve`: tiny and random, so this tests only the protocol."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

from chat_models.chat import ChatClient
from search_agents.budget import Budget
from search_agents.engine import Engine
from search_agents.model import ChatPlanner
from search_agents.policies.auto import Auto
from search_agents.records import Observation, Source
from search_agents.trail import AgentAnswer
from tests.fakes.planner import fake_tool, image
from tests.fakes.transformers_server import needs_server


def write_model(folder: Path) -> Path:
    """Writes a LLaMA that stops after a quarter of a second, whatever the requested length; the server drops images."""
    from tests.fakes.chat_checkpoints import write_llama

    write_llama(folder, positions=32_768)
    path = folder / "generation_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(settings | {"max_time": 0.25}), encoding="utf-8")
    return folder


@needs_server
def test_auto_speaks_with_a_real_server(transformers_server: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "llama")
    seen = Observation(
        (Source("Niger", "all about Niger", "https://kb/Niger"),), "Proposed answer: Niamey", answer="Niamey"
    )

    async def run() -> AgentAnswer:
        client = ChatClient(transformers_server, str(model), retries=0)
        try:
            tools = [fake_tool("ask_index", lambda arguments: seen), fake_tool("text_search")]
            engine = Engine(ChatPlanner(client), tools)
            return await engine.run(Auto(), "What is its capital?", image(), budget=Budget(rounds=3))
        finally:
            await client.aclose()

    answer = asyncio.run(run())
    # A random model writes neither a verdict nor a call nor a tagged answer; each failure is counted and retried.
    purposes = [request.purpose for one in answer.rounds for request in one.requests]
    assert purposes == ["inspect", "decide", "decide", "conclude"]
    assert answer.stopped == "rounds" and answer.malformed == 3
    counted = [request.prompt_tokens for one in answer.rounds for request in one.requests]
    assert all(
        after > before > 1000 for before, after in itertools.pairwise(counted[1:])
    )  # bytes, as the server counts
