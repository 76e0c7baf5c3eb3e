"""What reading a knowledge base kept and left out, in words; `Ledger.to_json` and `report.json` have the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retriever.wording import counted

Account = Mapping[str, Any]  # a ledger as JSON
SPOKEN = 0.02  # share of the words from which a build says what it left out; of images and entities, each one counts
_SHOWN, _UNREAD = 10, ("files *", "data in programs")  # beginnings of reasons: files that must be converted first


def summary_of(account: Account) -> str:
    """Summarizes in one sentence how many words were kept, and the largest losses."""
    source, kept = account["words"]["source"], account["words"]["kept"]
    share = (1000 * kept // source) / 10 if source else 100.0  # rounded down: 100 % is all of them
    listed = "; ".join(_shown(loss) for loss in account["left_out"][:_SHOWN])
    more = len(account["left_out"]) - _SHOWN
    others = f"; and for {counted(more, 'more reason')}" if more > 0 else ""
    text = f"kept {share:.1f} % of {counted(source, 'word')}"
    return text + (f"; left out: {listed}{others}" if listed else "")


def warning_of(account: Account) -> str:
    """Returns the sentence that a build prints, "" if it left out few words, and nothing whole."""
    source, kept = account["words"]["source"], account["words"]["kept"]
    losses = account["left_out"]
    whole = any(one["unit"] in ("images", "entities") or one["reason"].startswith(_UNREAD) for one in losses)
    return summary_of(account) if whole or source - kept > SPOKEN * source else ""


def _shown(loss: Mapping[str, Any]) -> str:
    nouns = {"words": "word", "furniture": "word", "images": "image", "files": "file", "entities": "entity"}
    places = f" in {counted(loss['places'], 'place')}" if loss["unit"] in ("words", "furniture") else ""
    return f"{loss['reason']} {counted(loss['count'], nouns[loss['unit']])}{places}, e.g. {loss['example']}"
