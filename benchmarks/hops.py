"""Asks multi-hop questions about flags: by retrieval alone, and by the agent `auto` with a scripted planner.

    python benchmarks/hops.py --index INDEX --kb kb_wiki.json --facts facts.csv --images QUERIES [--limit N] [--json]

The index must be built from the knowledge base. A question asks for the capital of the neighbor with which the flag's
country shares its longest border, or for the capital of that neighbor's neighbor in the same sense. Answers are the
capital's names in `facts.csv` and in the knowledge base; borders come from the knowledge base. The planner is a script,
not a model: it reads only what the tools return, as a model would. The figures therefore show whether tools and engine
support a chain of hops, not how well a model plans.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.frame import arguments
from benchmarks.scripted import ScriptedPlanner
from chat_models.messages import Message
from chat_models.replies import ChatReply, ToolCall
from omgm.agent import Agent
from omgm.api import OMGM
from search_agents.budget import Budget

NEIGHBOR = "the neighbor with which the country of this flag shares its longest border"
WORDINGS = {
    2: f"What is the capital of {NEIGHBOR}?",
    3: f"What is the capital of the country with which {NEIGHBOR} has its longest border?",
}
_BORDERS = re.compile(r"border countries(?: \(\d+\))?: ([^\n]*)")
_BORDER = re.compile(r"([A-Z][^;:\d]*?) ([\d,.]+) km")
_CAPITAL = re.compile(r"Capital: name: ([^;\n]+)")
_RESULT = re.compile(r"^\[(\d+)\] (.+?)(?:, [^,]+)? \((https?://[^)]*)\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HopQuestion:
    """A question with its answer; `path` names the countries along the hops, starting with the one in the image."""

    image: Path
    question: str
    answer: str
    path: tuple[str, ...]


def longest_border(text: str) -> str | None:
    """Returns the neighbor with the longest border in a text of the knowledge base, `None` if it lists no borders.

    Example:
        >>> longest_border("border countries (2): Libya 989 km; Mali 1,359 km")
        'Mali'
    """
    found = _BORDERS.search(text)
    borders = [(float(km.replace(",", "")), name.strip()) for name, km in _BORDER.findall(found[1])] if found else []
    return max(borders)[1] if borders else None


def questions(kb: Mapping[str, Any], facts: Sequence[Mapping[str, str]], images: Path) -> Iterator[HopQuestion]:
    """Yields the questions whose hops all lead to countries in both the facts and the knowledge base."""
    texts = {entry["title"]: "\n".join(entry["section_texts"]) for entry in kb.values()}
    capitals = {row["name"]: row["capital"] for row in facts if row["capital"] and row["name"] in texts}
    for row in facts:
        found = sorted(images.glob(f"dev_country_{row['code']}_*.jpg"))
        path = [row["name"]]
        for hops, question in WORDINGS.items():
            following = longest_border(texts.get(path[-1], ""))
            if not found or following is None or following not in capitals:
                break
            path.append(following)
            named = _CAPITAL.search(texts[following])
            answer = "|".join([capitals[following], *([named[1].split(" (")[0]] if named else [])])
            yield HopQuestion(found[0], question, answer, tuple(path))
            assert len(path) == hops


def next_step(messages: Sequence[Message], schema: Mapping[str, Any] | None) -> ChatReply:
    """Plans for these questions: opens one article after another and reads the next country from its borders."""
    if schema is not None:
        return ChatReply(json.dumps({"sufficient": False, "answer": "", "sources": [], "missing": "the neighbor"}))
    hops = 3 if "has its longest border?" in _text(messages[1]) else 2
    opened = [_text(message) for message in messages[2:] if message["role"] in ("user", "tool")]
    if not opened:
        first = _RESULT.search(_text(messages[1]))
        return _open(first[2], "Land boundaries, border countries") if first else ChatReply("<answer>unknown</answer>")
    if len(opened) == hops:
        for text in re.split(r"\n(?=\[\d+\] )", opened[-1]):
            if capital := _CAPITAL.search(text):
                return ChatReply(f"<answer>{capital[1]} {text[: text.index(']') + 1]}</answer>")
        return ChatReply("<answer>unknown</answer>")
    country = longest_border(opened[-1])
    if country is None:
        return ChatReply("<answer>unknown</answer>")
    last = len(opened) == hops - 1
    return _open(country, "Capital: name" if last else "Land boundaries, border countries")


def compare(omgm: OMGM, asked: Sequence[HopQuestion]) -> dict[str, Any]:
    """Asks every question both ways; returns the shares of right answers and the questions that `auto` got wrong."""
    right = {f"{way}_{hops}": 0 for hops in WORDINGS for way in ("retrieval", "auto")}
    counts = dict.fromkeys(WORDINGS, 0)
    wrong = []
    with Agent(omgm, ScriptedPlanner(next_step)) as agent:
        for one in asked:
            hops = len(one.path)
            counts[hops] += 1
            right[f"retrieval_{hops}"] += is_right(omgm.ask(one.image, one.question).answer, one.answer)
            answer = agent.ask(one.image, one.question, "auto", budget=Budget())
            if is_right(answer.answer, one.answer):
                right[f"auto_{hops}"] += 1
            else:
                wrong.append({"path": one.path, "expected": one.answer, "answer": answer.answer})
    shares = {name: right[name] / max(1, counts[int(name[-1])]) for name in right}
    return {"questions": {str(hops): count for hops, count in counts.items()}, "accuracy": shares, "wrong": wrong}


def is_right(answer: str | None, expected: str) -> bool:
    """Returns whether an answer contains one of the expected ones (separated by `|`), ignoring accents and punctuation.

    Example:
        >>> is_right("Sanaa", "Sana'a"), is_right("Pretoria (executive)", "Pretoria|Cape Town")
        (True, True)
    """
    return answer is not None and any(_letters(one) in _letters(answer) for one in expected.split("|"))


def _letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if c.isalnum())


def main() -> None:
    parser = arguments(__doc__, out="")
    parser.add_argument("--index", type=Path, required=True, help="an index of the knowledge base")
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--kb", type=Path, required=True, help="the knowledge base, E-VQA's format")
    parser.add_argument("--facts", type=Path, required=True, help="a table with code, name and capital of countries")
    parser.add_argument("--images", type=Path, required=True, help="images named dev_country_<code>_<n>.jpg")
    parser.add_argument("--limit", type=int, help="ask only this many questions, spread over all")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    kb = json.loads(args.kb.read_text(encoding="utf-8"))
    with args.facts.open(encoding="utf-8", newline="") as file:
        asked = list(questions(kb, list(csv.DictReader(file)), args.images))
    if args.limit:
        asked = asked[:: max(1, len(asked) // args.limit)][: args.limit]
    with OMGM.open(args.index, args.profile) as omgm:
        figures = compare(omgm, asked)
    if args.json:
        print(json.dumps(figures, ensure_ascii=False, indent=2))
        return
    for hops, count in figures["questions"].items():
        shares = [f"{way} {figures['accuracy'][f'{way}_{hops}']:.3f}" for way in ("retrieval", "auto")]
        print(f"{hops} hops, {count} questions: {', '.join(shares)}")
    for one in figures["wrong"]:
        print(f"  wrong: {' > '.join(one['path'])}: expected {one['expected']}, got {one['answer']}")


def _open(page: str, question: str) -> ChatReply:
    return ChatReply("", (ToolCall("open_page", json.dumps({"page": page, "question": question})),))


def _text(message: Message) -> str:
    content = message["content"]
    return (
        content if isinstance(content, str) else "\n".join(part["text"] for part in content if part["type"] == "text")
    )


if __name__ == "__main__":
    main()
