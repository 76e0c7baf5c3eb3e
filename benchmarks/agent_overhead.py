"""Times an agent's round: concurrent searches against sequential ones, and the overhead of the engine itself.

    python benchmarks/agent_overhead.py [--searches 8] [--ms 200] [--rounds 20] [--json]

Tools sleep for `--ms` milliseconds; the planner replies immediately. The overhead is the time of a round minus its
longest search: policy, messages, validation of calls, numbering of sources and the trail, with a 1,024 x 768 image and
sources of 1,200 characters. It includes the first round, which encodes the image.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from PIL import Image
from pydantic import BaseModel

from benchmarks.frame import arguments
from benchmarks.scripted import ScriptedPlanner
from chat_models.messages import Message
from chat_models.replies import ChatReply, ToolCall
from search_agents.budget import Budget
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.records import Observation, Source
from search_agents.state import AgentRun, Tool


class SearchWords(BaseModel):
    """The arguments of the search."""

    query: str


def sleeping_search(seconds: float) -> Tool:
    """Returns a search that sleeps for `seconds` and then finds five sources of 1,200 characters."""

    async def search(arguments: SearchWords, run: AgentRun) -> Observation:
        await asyncio.sleep(seconds)
        titles = [f"{arguments.query} {number}" for number in range(5)]
        return Observation(tuple(Source(title, "word " * 240, f"https://example.org/{title}") for title in titles))

    return Tool("text_search", "Searches.", SearchWords, search, lambda arguments, run: "")


def searching_planner(rounds: int, searches: int) -> ScriptedPlanner:
    """Returns a planner that asks for `searches` searches in each round and answers after the last."""
    requests = count(1)

    def play(messages: Sequence[Message], schema: Mapping[str, Any] | None) -> ChatReply:
        number = next(requests)
        if number > rounds:
            return ChatReply("<answer>done [1]</answer>", prompt_tokens=1, completion_tokens=1)
        queries = [f"query {number} {place}" for place in range(searches)]
        calls = tuple(ToolCall("text_search", json.dumps({"query": query}), query) for query in queries)
        return ChatReply("", calls, prompt_tokens=1, completion_tokens=1)

    return ScriptedPlanner(play)


def seconds_of(rounds: int, searches: int, search_s: float) -> tuple[float, float]:
    """Returns the wall-clock time and CPU time of a run in seconds."""
    image = Image.effect_noise((1024, 768), 50).convert("RGB")
    engine = Engine(searching_planner(rounds, searches), [sleeping_search(search_s)], context_tokens=32_768)
    budget = Budget(rounds=rounds + 1, tokens=10**9)
    wall, processor = time.perf_counter(), time.process_time()
    answer = asyncio.run(engine.run(MMSearchPlus(), "What is it?", image, budget=budget))
    taken = time.perf_counter() - wall, time.process_time() - processor
    assert answer.answer == "done" and len(answer.sources) == 5 * rounds * searches
    return taken


def measure(searches: int, ms: float, rounds: int) -> dict[str, float]:
    """Returns the times in milliseconds and the speedup of concurrent searches."""
    seconds_of(1, 1, 0)  # warm-up: imports and schemas
    parallel, _ = seconds_of(1, searches, ms / 1000)
    serial, _ = seconds_of(searches, 1, ms / 1000)
    wall, processor = (seconds / (rounds + 1) * 1000 for seconds in seconds_of(rounds, searches, 0))
    return {
        "searches": searches,
        "search_ms": ms,
        "parallel_ms": round(parallel * 1000, 1),
        "serial_ms": round(serial * 1000, 1),
        "speedup": round(serial / parallel, 2),
        "overhead_ms_per_round": round(wall, 2),
        "overhead_processor_ms_per_round": round(processor, 2),
    }


def main() -> None:
    parser = arguments(__doc__, out="")
    parser.add_argument("--searches", type=int, default=8, help="searches of a round (%(default)s; 16 at most)")
    parser.add_argument("--ms", type=float, default=200, help="milliseconds of a search (%(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of the overhead's run (%(default)s)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = measure(args.searches, args.ms, args.rounds)
    if args.json:
        print(json.dumps(figures, indent=2))
        return
    print(
        f"{args.searches} searches of {args.ms:g} ms: {figures['parallel_ms']} ms concurrently, "
        f"{figures['serial_ms']} ms sequentially, speedup {figures['speedup']}"
    )
    print(
        f"engine overhead per round of {args.searches} searches: {figures['overhead_ms_per_round']} ms, "
        f"of which {figures['overhead_processor_ms_per_round']} ms of CPU time"
    )


if __name__ == "__main__":
    main()
