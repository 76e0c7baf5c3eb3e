"""Finds where an agent's run replaced an input of the published protocol, from the trails of its questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retriever.wording import counted

ON_THE_WEB = ("mmsearch", "mmsearch-plus", "dynvqa")  # the data sets whose papers search the web


def replaced_inputs(dataset: str, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns a sentence on each published input that a run replaced, by its short name, with the questions concerned.

    Args:
        dataset: The data set's name.
        records: One record per question, with its trail.
    """
    if dataset not in ON_THE_WEB:
        return {}
    trails = [record["trail"] for record in records if record["trail"] is not None]
    called = [{(call["tool"], _view(call)) for one in trail["rounds"] for call in one["calls"]} for trail in trails]
    tools = [{tool for tool, _ in calls} for calls in called]
    of = f"of {counted(len(trails), 'question')}"
    said = {}
    # MMSearch's image search is a file of the data set; the others search live, as does `web_image_search`.
    image = {"image_search", "find_images"} | ({"web_image_search"} if dataset == "mmsearch" else set())
    replaced = "the data set's image_search_result" if dataset == "mmsearch" else "the web"
    if n := sum(bool(names & image) for names in tools):
        said["own-image-search"] = f"Images were searched for in the index instead of {replaced} ({n} {of})."
        if any("web_image_search" in names for names in tools) and dataset == "mmsearch":
            said["own-image-search"] = f"Images were searched for anew, instead of using {replaced} ({n} {of})."
    if n := sum("text_search" in names or "ask_index" in names for names in tools):
        said["own-text-search"] = f"Texts were searched for in the index instead of the web ({n} {of})."
    shown = {"image_search", "web_image_search"}
    if dataset == "dynvqa" and (n := sum(bool(names & shown) for names in tools)):
        said["titles-only"] = f"Images that a search for the image found were named, not shown ({n} {of})."
    opened = [{view for tool, view in calls if tool == "open_page"} for calls in called]
    if dataset == "mmsearch" and (n := sum(bool(views) and "full" not in views for views in opened)):
        said["no-screenshots"] = f"The model saw no screenshots of websites ({n} {of})."
    return said


def _view(call: Mapping[str, Any]) -> str:
    arguments = call["arguments"]
    return str(arguments.get("screenshot", "")) if isinstance(arguments, Mapping) else ""
