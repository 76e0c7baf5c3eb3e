"""The commands: in which order they are listed, and under which names they were before.

A command is a module that an entry point in the group `omgm.commands` names: `omgm kb inspect` is `kb.inspect`, in
`kb_inspect.py`, with `add_arguments(parser)` and `run(args)`. The first line of its docstring says what it is for.
Nothing heavy is imported before `run`, and no other command's module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec

from retriever.entry_points import targets

GROUP = "omgm.commands"
GROUPS = {
    "ask": ("demo", "ask", "serve", "mcp", "doctor", "download"),
    "build": ("build-index", "index", "kb", "import"),
    "train": ("train-encoder", "mine-negatives", "train-reranker", "train-generator", "sweep"),
    "evaluate": ("evaluate", "compare", "tables"),
}
"""The order of the commands in the help, by what people do; those of other packages come last."""
FAMILIES = {
    "index": (
        "Change, inspect, measure, publish or split an index",
        ("add", "remove", "calibrate", "compact", "verify", "info", "tokens", "push", "split", "copy"),
    ),
    "kb": (
        "Inspect a knowledge base, download its images, or check questions about it",
        ("inspect", "images", "check"),
    ),
    "import": (
        "Convert what other systems wrote: a checkpoint, summaries and vectors, or questions",
        ("encoder", "reranker", "index", "questions"),
    ),
}
"""What a command with actions is for, and the order of its actions."""


@cache
def modules() -> Mapping[str, str]:
    """Returns the modules of all commands by name, such as "index add", in the order of the help."""
    order = [word for group in GROUPS.values() for name in group for word in _with_actions(name)]
    named = {name.replace(".", " "): module for name, module in sorted(targets(GROUP).items())}
    known = [name for name in order if name in named]
    return {name: named[name] for name in dict.fromkeys([*known, *named])}


def _with_actions(name: str) -> list[str]:
    return [f"{name} {action}" for action in FAMILIES[name][1]] if name in FAMILIES else [name]


def commands() -> list[str]:
    """Returns the first words of all commands."""
    return list(dict.fromkeys(name.partition(" ")[0] for name in modules()))


def actions_of(command: str) -> list[str]:
    """Returns the actions of a command, none if it is itself one."""
    return [name.removeprefix(f"{command} ") for name in modules() if name.startswith(f"{command} ")]


def groups() -> Mapping[str, list[str]]:
    """Returns the first words of all commands by what people do, those of other packages last."""
    listed = {group: [name for name in names if name in commands()] for group, names in GROUPS.items()}
    others = [name for name in commands() if not any(name in names for names in GROUPS.values())]
    return listed | ({"others": others} if others else {})


def about(name: str) -> str:
    """Returns a command's description in one line, without the final period; does not import its module."""
    if name in FAMILIES:
        return FAMILIES[name][0]
    module = modules().get(name)
    spec = None if module is None else find_spec(module)
    if spec is None or spec.origin is None:
        return "Commands of another package" if module is None else f"Cannot be imported: there is no module {module}"
    with open(spec.origin, encoding="utf-8") as file:
        return file.read(400).partition('"""')[2].partition("\n")[0].partition('"""')[0].rstrip(".")


RENAMED = {
    "calibrate": "sweep --recognition",
    "dataset": "kb check",
    "dataset check": "kb check",
    "dataset export": "import questions",
    "images": "kb images",
    "images fetch": "kb images",
    "import-encoder": "import encoder",
    "import-index": "import index",
    "import-reranker": "import reranker",
    "key": "serve --new-key",
    "push": "index push",
    "tokens": "index tokens",
    "tokens measure": "index tokens",
    "train-sections": "train-encoder --sections",
    "web": "download",
    "web record": "download",
}
"""Earlier names of commands, and the words that replace them; the arguments are the same."""
REPLACED_FLAGS = {
    "--contact": "--set agents.contact=MAIL",
    "--allow-private": "--set 'agents.allow_private=[\"HOST\"]'",
    "--examples": "--set serving.examples_dir=DIR",
    "--k": "--set search.k=N",
    "--model": "--set generator.model=NAME",
    "--planner-url": "--set generator.base_url=URL",
    "--prompts": "--set agents.prompts=paper (or own)",
    "--propose-regions": "--set agents.propose_regions=true",
    "--publish-images": "--set agents.publish_dir=DIR --set agents.publish_url=URL",
    "--recipe": "--set fusion.recipe=NAME",
    "--screenshots": "--set agents.screenshots=true",
    "--search-engine": "--set agents.search_engine=NAME",
    "--search-price": "--set 'agents.prices={web_search = MONEY}'",
    "--searxng": "--set agents.searxng_url=URL",
    "--threshold": "--set recognition.threshold=P",
    "--web-corpus": "--set agents.web_corpus=DIR",
}
"""Earlier flags that were also settings of a profile, and how the setting is given."""
