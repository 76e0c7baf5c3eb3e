"""`omgm ask` with a chat model that thinks aloud."""

from __future__ import annotations

import json

import pytest

from omgm.__main__ import main
from tests.fakes.inputs import profile, write_inputs
from tests.fakes.scripted_server import ScriptedServer


@pytest.mark.parametrize(
    ("reply", "answer", "thoughts"),
    [
        ("<think>It is 5? No, 7.</think>7", "7", "It is 5? No, 7."),
        ("<think>It is", None, "It is"),
        ("7", "7", ""),
    ],
)
def test_thoughts_are_shown_on_request(
    reply: str,
    answer: str | None,
    thoughts: str,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = tmp_path_factory.getbasetemp() / "asked"
    if not world.exists():
        world.mkdir()
        write_inputs(world)
    with ScriptedServer([reply]) as server:
        model = ["--set", f"generator.base_url={server.url}", "--set", "generator.model=scripted"]
        asked = ["--index", str(world / "index"), str(world / "queries" / "q_red.png"), "what is the capital?"]
        command = ["ask", *profile(world), "--set", "generator.kind=openai", *model]
        capsys.readouterr()
        assert main([*command, "--json", *asked]) == 0
        plain = json.loads(capsys.readouterr().out)
        assert plain["answer"] == answer and "thoughts" not in plain
        assert main([*command, "--json", "--thoughts", *asked]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["answer"], found["thoughts"]) == (answer, thoughts)
        assert main([*command, "--thoughts", *asked]) == 0
        assert capsys.readouterr().out.startswith(f"thoughts: {thoughts or '(none)'}\n\n")
