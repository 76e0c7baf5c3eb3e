"""The budget of a run, and what it has spent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from retriever.wording import counted

KEPT_FOR_ANSWER = 0.2
"""Share of tokens, seconds and money reserved for the last request, which writes the answer."""


class OutOfBudget(Exception):
    """The run was about to exceed its budget. `limit` names the limit."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one run, all of them hard.

    Attributes:
        rounds: Maximum number of rounds; `None` for the policy's own limit.
        tokens: Maximum number of prompt and completion tokens of all requests to the model.
        seconds: Maximum wall time in seconds, after which running calls are canceled.
        money: Maximum cost of model and tools, in any currency.
        malformed: Number of malformed replies and calls after which the model is only asked for its answer.
        calls: Maximum number of calls per tool, by name; unlimited for other tools.
        prompt_price: Price per million prompt tokens.
        completion_price: Price per million completion tokens.
    """

    rounds: int | None = None
    tokens: int = 200_000
    seconds: float = 300
    money: float = math.inf
    malformed: int = 5
    calls: Mapping[str, int] = field(default_factory=dict)
    prompt_price: float = 0
    completion_price: float = 0

    def __post_init__(self) -> None:
        """Checks the limits."""
        for name, value in asdict(self).items():
            for number in value.values() if name == "calls" else [value]:
                if number is not None and not number >= 0:
                    raise ValueError(f"budget: {name} must be at least 0, got {number}")

    def price(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Returns the price of a request to the model."""
        return (prompt_tokens * self.prompt_price + completion_tokens * self.completion_price) / 1e6


CUT = (
    "perhaps the beginning of the prompt, cut by a server with a shorter context: raise its length (Ollama: "
    "OLLAMA_CONTEXT_LENGTH), or set agents.context_tokens to it"
)
"""What the model may have been asked without, as the server's counts show."""
_SHORTEST_CONTEXT = 2048
"""Tokens that every server takes."""
_GROWN = 200
"""Tokens by which a prompt must have grown to be compared with an earlier one."""


def believed(counted: int | None, estimate: int, least: int | None = None) -> int:
    """Returns the tokens that count: the server's, unless they cannot be true.

    Args:
        counted: What the server counts, if it does.
        estimate: Our estimate.
        least: Our estimate of the text alone: an image may be few tokens. By default, there is only text.
    """
    least = estimate if least is None else least
    return estimate if counted is None or 2 * counted < least else counted


@dataclass(slots=True)
class PromptCounts:
    """A whole prompt of a run: our estimate of its text, its images, and the tokens that the server counts."""

    text: int = 0
    images: int = 0
    counted: int = 0

    def is_cut(self, text: int, images: int, counted: int | None) -> bool:
        """Returns whether a prompt was cut in silence: its count is far less, or stands still while it grows."""
        if counted and text >= _SHORTEST_CONTEXT and 2 * counted < text:
            return True
        grown = text - self.text
        if not counted or grown < _GROWN:
            return False
        if self.counted and images >= self.images and counted - self.counted < grown / 10:
            return True
        self.text, self.images, self.counted = text, images, counted
        return False


@dataclass(slots=True)
class Spending:
    """What a run has spent, and the share of its budget that it may currently use."""

    budget: Budget
    tokens: int = 0
    money: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    share: float = 1 - KEPT_FOR_ANSWER

    def check_request(self, prompt_tokens: int, max_tokens: int) -> None:
        """Checks before a request to the model is sent that the budget allows it.

        Raises:
            OutOfBudget: The request might cost more than is left.
        """
        if self.tokens + prompt_tokens + max_tokens > self.share * self.budget.tokens:
            raise OutOfBudget("tokens")
        if self.money + self.budget.price(prompt_tokens, max_tokens) > self.share * self.budget.money:
            raise OutOfBudget("money")

    def add_request(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Adds the tokens and the price of a request to the model."""
        self.tokens += prompt_tokens + completion_tokens
        self.money += self.budget.price(prompt_tokens, completion_tokens)

    def add_call(self, tool: str, cost: float) -> str:
        """Adds a tool call before it runs, unless the budget forbids it; returns the reason for that, or ""."""
        limit = self.budget.calls.get(tool)
        if limit is not None and self.calls[tool] >= limit:
            times = counted(limit, "time")
            return f"{tool} has been called {times}, which is all that the budget allows; answer without it"
        if self.money + cost > self.share * self.budget.money:
            return f"{tool} costs more than the budget has left; answer without it"
        self.calls[tool] += 1
        self.money += cost
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Returns the totals, rounded so that they do not depend on the order of addition."""
        return {"tokens": self.tokens, "money": round(self.money, 9), "calls": dict(sorted(self.calls.items()))}
