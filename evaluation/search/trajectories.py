"""Statistics of trajectories: which tools agents call, when, and what follows (MMSearch-Plus, section 5.1)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.metrics import mean

ANSWER = "answer"  # the final step of a trajectory, alongside the tools
STEPS = 20  # number of steps reported individually

Trail = Mapping[str, Any]  # a trail as `search_agents.trail.AgentAnswer.as_dict` returns it


def _steps_of(trail: Trail) -> list[list[str]]:
    """Returns the tools called in each round, and `answer` for the final round, which calls none."""
    steps = [[str(call["tool"]) for call in one["calls"]] for one in trail["rounds"]]
    answered = trail["answer"] is not None
    return [step or [ANSWER] * (answered and at == len(steps)) for at, step in enumerate(steps, start=1)]


def trajectory_figures(trails: Sequence[Trail], scores: Sequence[float]) -> dict[str, Any]:
    """Returns the statistics of all trajectories.

    `next` holds P(next | tool): the share of a tool's calls that are followed by a call of the next tool (or by the
    answer) in the immediately following round; P(image | zoom) is `next.zoom_in.image_search`. Since a round can have
    several calls, the shares of one tool may add up to more than 1.

    Args:
        trails: The trails.
        scores: The score of each answer; at least one half counts as right.
    """
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    by_step: defaultdict[int, Counter[str]] = defaultdict(Counter)
    following: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for trail in trails:
        steps = _steps_of(trail)
        for number, (step, after) in enumerate(zip(steps, [*steps[1:], []], strict=True), start=1):
            by_step[min(number, STEPS)].update(step)
            for tool in step:
                calls[tool] += tool != ANSWER
                following[tool].update(set(after))
        failed.update(call["tool"] for one in trail["rounds"] for call in one["calls"] if call["error"])
    following.pop(ANSWER, None)
    right = [trail for trail, score in zip(trails, scores, strict=True) if score >= 0.5]
    wrong = [trail for trail, score in zip(trails, scores, strict=True) if score < 0.5]
    return {
        "n": len(trails),
        "rounds_mean": mean([len(trail["rounds"]) for trail in trails]),
        "requests_mean": mean([sum(len(one["requests"]) for one in trail["rounds"]) for trail in trails]),
        "calls": {tool: n for tool, n in sorted(calls.items()) if n},
        "calls_mean": mean([_calls(trail) for trail in trails]),
        "calls_mean_right": mean([_calls(trail) for trail in right]),
        "calls_mean_wrong": mean([_calls(trail) for trail in wrong]),
        "by_step": [{"step": step, **dict(sorted(by_step[step].items()))} for step in sorted(by_step)],
        "next": {
            tool: {after: n / calls[tool] for after, n in sorted(following[tool].items())}
            for tool in sorted(following)
            if calls[tool]
        },
        "p_image_given_zoom": following["zoom_in"]["image_search"] / calls["zoom_in"] if calls["zoom_in"] else None,
        "malformed": sum(trail["malformed"] for trail in trails),
        "malformed_trajectories": sum(trail["malformed"] > 0 for trail in trails),
        "failed_calls": dict(sorted(failed.items())),
        "invented_citations": sum(len(trail["invented_citations"]) for trail in trails),
        "stopped": dict(sorted(Counter(trail["stopped"] for trail in trails if trail["stopped"]).items())),
        "tokens_mean": mean([trail["spent"]["tokens"] for trail in trails]),
        "money": round(sum(trail["spent"]["money"] for trail in trails), 9),
    }


def _calls(trail: Trail) -> int:
    return sum(len(one["calls"]) for one in trail["rounds"])
