"""Runs every policy with a small chat model and prints what comes out; see docs/agents.md for how to serve one."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chat_models.chat import ChatClient
from chat_models.messages import Message
from chat_models.replies import ChatReply
from omgm import OMGM
from omgm.agent import Agent
from search_agents.budget import Budget
from search_agents.context import without_images
from search_agents.model import ChatPlanner
from search_agents.policies import POLICIES
from search_agents.trail import AgentAnswer

MODES = ("mmsearch-plus", "auto", "omnisearch", "mmsearch", "vsa")


class Transcribed(ChatPlanner):
    """A planner that keeps the end of every request with its reply."""

    def __init__(self, client: ChatClient) -> None:
        super().__init__(client)
        self._said: list[str] = []

    async def reply(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        tools: Sequence[Mapping[str, Any]],
        schema: Mapping[str, Any] | None,
    ) -> ChatReply:
        """Returns the model's reply."""
        reply = await super().reply(messages, max_tokens, tools, schema)
        asked = json.dumps(without_images(messages[-1]), ensure_ascii=False)
        self._said.append(f"ASKED {asked}\nREPLY {reply.ending} {reply.without} {reply.calls}\n{reply.text}\n")
        return reply

    def write(self, path: Path, note: str) -> None:
        """Writes what has been said since the last time."""
        path.write_text("\n".join([*self._said, note]), encoding="utf-8")
        self._said.clear()


def main() -> None:
    """Asks each question with each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", required=True)
    parser.add_argument("--planner-url", required=True)
    parser.add_argument("--model", default="small")
    parser.add_argument("--ask", action="append", nargs=2, metavar=("IMAGE", "QUESTION"), required=True)
    parser.add_argument("--modes", nargs="+", choices=sorted(POLICIES), default=MODES)
    parser.add_argument("--context-tokens", type=int, default=6000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for the trails")
    options = parser.parse_args()
    budget = Budget(rounds=options.rounds, seconds=options.seconds)
    planner = Transcribed(ChatClient(options.planner_url, options.model))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    print("| mode | answered | abstained | failed | rounds | requests | calls | failed calls | malformed | ended by |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with OMGM.open(options.index) as omgm, Agent(omgm, planner, context_tokens=options.context_tokens) as agent:
        for mode in options.modes:
            answers = []
            for number, (image, question) in enumerate(options.ask):
                start = time.monotonic()
                answers.append(agent.ask(image, question, mode, budget=budget))
                if options.out is not None:
                    answers[-1].write(options.out / f"{mode}-{number}.json")
                    planner.write(options.out / f"{mode}-{number}.txt", f"{time.monotonic() - start:.0f} s")
            print(_row(mode, answers), flush=True)


def _row(mode: str, answers: Sequence[AgentAnswer]) -> str:
    """Returns a row of the table."""
    rounds = [one for answer in answers for one in answer.rounds]
    calls = [call for one in rounds for call in one.calls]
    ended = Counter(answer.stopped or "the model" for answer in answers)
    figures = (
        sum(answer.answer is not None for answer in answers),
        sum(answer.answer is None and answer.failure is None for answer in answers),
        sum(answer.failure is not None for answer in answers),
        len(rounds),
        sum(len(one.requests) for one in rounds),
        len(calls),
        sum(bool(call.observation.error) for call in calls),
        sum(answer.malformed for answer in answers),
        ", ".join(f"{reason} ({count})" for reason, count in ended.items()),
    )
    return f"| `{mode}` | " + " | ".join(map(str, figures)) + " |"


if __name__ == "__main__":
    main()
