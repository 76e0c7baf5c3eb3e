from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from pydantic import BaseModel

from indexes.knowledge.readers.registry import readers
from indexes.store.lock import locked
from omgm.__main__ import main, parser
from omgm.commands import FAMILIES, GROUPS, RENAMED, REPLACED_FLAGS, actions_of, commands, modules
from omgm.commands.sweep import grid
from omgm.settings import Profile
from serving.keys import new_key
from tests.fakes.knowledge_base import write_kb
from tests.fakes.processes import run_python
from tests.paths import ROOT

WEIGHTS = ROOT / "weights" / "embedded"
FLAGS = {
    "demo": "--profile --set --data --index --port --questions --once",
    "ask": "--profile --set --index --thoughts --mode --region --corpus --record --trail --json IMAGE QUESTION",
    "serve": "--profile --set --index --kb --kb-format --map --images --max-bad --strict --host --port --new-key",
    "mcp": "--profile --set --index --http --host --port",
    "doctor": "--profile --set --index --json",
    "download": "--profile --set --dry-run --json --prompts --queries --out",
    "build-index": "--profile --set --kb --kb-format --map --images --out --overwrite --max-bad --strict --json",
    "index add": "--index --profile --set --images --prune --json FILE",
    "index remove": "--index --json ID",
    "index calibrate": "--index --profile --json",
    "index compact": "--index --json",
    "index verify": "--index --json",
    "index info": "--index --json",
    "index tokens": "--index --queries --query-images --out --codecs --json",
    "index push": "FOLDER ORG/NAME --private --message --license",
    "index split": "--index --parts --out",
    "index copy": "--index --to",
    "kb inspect": "FILE --images --kb-format --map --html --json",
    "kb images": "--kb --kb-format --images --all --contact --per-host --max-bytes --max-side --thumbnails --json",
    "kb check": "--dataset --queries --query-map --query-images --index --kb --missing --json",
    "import encoder": "--config --tokenizer --out --json FILE",
    "import reranker": "--kind --base --tokenizer --out --json FILE",
    "import index": "--profile --set --kb --images --kb-format --map --faiss --ids --summaries --image-table --out "
    "--json",
    "import questions": "--from --split --out",
    "train-encoder": "--kb --kb-format --images --dataset --queries --query-map "
    "--query-images --out --steps --minutes --seed --overwrite --max-bad --sections --index",
    "mine-negatives": "--profile --set --index --kb --kb-format --images --dataset --queries --query-map "
    "--query-images --out",
    "train-reranker": "--index --kb --kb-format --images --dataset --queries --query-map "
    "--query-images --negatives --out --steps "
    "--minutes --seed --epochs --batch-size --accumulate --learning-rate --warmup --precision "
    "--tokens-per-forward --workers --max-bad",
    "train-generator": "--profile --set --index --kb --kb-format --images --dataset --queries --query-map "
    "--query-images --base --out --seed --most "
    "--samples-only --epochs --steps --learning-rate --batch-size --accumulate --rank --lora-alpha --max-tokens "
    "--gradient-checkpointing --save-every --workers",
    "sweep": "--profile --set --index --dataset --queries --query-map --query-images --out --json --alphas --betas "
    "--recognition",
    "evaluate": "--profile --set --index --dataset --queries --query-map "
    "--query-images --out --json --only-split --limit --bem --step1 --mode",
    "compare": "--out --resamples --seed --json RUN",
    "tables": "--profile --set --kb --images --index --dataset --queries --query-map --query-images --tuned-on --runs "
    "--out",
}


def omgm(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "omgm", *arguments)


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    actions = [f"{name} {action}" for name, (_, actions) in FAMILIES.items() for action in actions]
    listed = [name for names in GROUPS.values() for name in names]
    assert set(FLAGS) == modules().keys() == {*listed, *actions} - FAMILIES.keys()
    assert len(commands()) <= 18
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert re.findall(r"^(\w+):$", shown, re.MULTILINE) == ["ask", "build", "train", "evaluate"]
    assert re.findall(r"^  ([a-z][\w-]*)", shown, re.MULTILINE) == listed


@pytest.mark.parametrize("command", FLAGS)
def test_help_names_every_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert [flag for flag in FLAGS[command].split() if flag not in shown] == []


def test_help_names_every_format_of_a_knowledge_base(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["kb", "inspect", "--help"])
    shown = re.findall(r"\w+", capsys.readouterr().out.partition("--kb-format NAME  ")[2].partition("guessed")[0])
    assert {reader.name for reader in readers()} <= set(shown)


def test_help_imports_nothing_heavy() -> None:
    loaded = "print(sorted({'torch', 'numpy', 'PIL', 'pydantic', 'asyncio'} & set(sys.modules)))"
    for command in ("", "None"):
        code = f"import sys, omgm.__main__ as m; m.parser({command!r}); {loaded}"
        assert run_python("-c", code, check=True).stdout == "[]\n"


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_says_the_new_one(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*old.split(), "--help"])
    shown = capsys.readouterr()
    assert (stopped.value.code, shown.err) == (0, f"omgm: `omgm {old}` is now `omgm {RENAMED[old]}`\n")
    assert shown.out.startswith(f"usage: omgm {RENAMED[old].partition(' --')[0]} ")


def test_a_flag_that_is_a_setting_now_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["ask", "--index", "i", "--planner-url=http://a", "--model", "m", "photo.jpg", "Who?"])
    told = "--planner-url is now --set generator.base_url=URL; --model is now --set generator.model=NAME"
    assert (stopped.value.code, capsys.readouterr().err) == (2, f"omgm: error: {told}\n")
    for advice in REPLACED_FLAGS.values():
        for key in re.findall(r"--set '?([\w.]+)=", advice):
            assert default_of(key) is not None, key


def default_of(key: str) -> object:
    """Returns the annotation of a profile's setting."""
    section, _, name = key.partition(".")
    model = Profile.model_fields[section].annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)
    return model.model_fields[name].annotation


def completions(script: str, *words: str) -> list[str]:
    """Returns bash's completions of a command line whose last word is unfinished."""
    line = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _omgm; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.split()


def test_bash_completes_commands_actions_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--completion", "bash"])
    script = capsys.readouterr().out
    assert completions(script, "omgm", "") == commands()
    assert completions(script, "omgm", "index", "") == actions_of("index")
    assert completions(script, "omgm", "index", "add", "--pr") == ["--profile", "--prune"]
    assert completions(script, "omgm", "ask", "--index", "") == []  # a file


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_another_shell_names_all_commands(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--completion", shell])
    script = capsys.readouterr().out
    assert " ".join(commands()) in script and " ".join(actions_of("index")) in script
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)  # parses it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build-index", "--profile", "nowhere", "--kb", "a", "--images", "b", "--out", "c"], "'nowhere' is neither"),
        (["ask", "--set", "search.q=1", "--index", "a", "b.jpg", "Who?"], "--set: unknown key 'search.q'"),
        (["ask", "--index", "a", "no.jpg", "Who?"], "IMAGE: no.jpg does not exist"),
        (["ask", "--index", "a", "no.jpg", " "], "QUESTION is empty"),
        (
            ["evaluate", "--index", "a", "--queries", "no.csv", "--query-images", "b", "--out", "c"],
            "--queries: no.csv does not exist",
        ),
        (
            ["train-encoder", "--kb", "a", "--images", "b", "--queries", "c", "--out", "d"],
            "--queries and --query-images must be given together",
        ),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("omgm: error: ") and error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize(
    "setting", ["{}", "{}=1", "fusion.tokens={}", "generator.kind={}", "serving.read_keys={}", 'serving.hosts=["a {}"]']
)
def test_a_key_in_the_wrong_place_is_not_repeated(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    key = new_key()
    assert main(["serve", "--index", "x", "--set", setting.format(key)]) == 2
    assert key[5:20] not in capsys.readouterr().err


def test_a_reader_that_leaves_ends_a_command_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "omgm", "serve", "--new-key"]
    with open(write, "w") as gone:
        done = subprocess.run(command, cwd=ROOT, stdout=gone, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_missing_flag_is_usage() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["build-index"])
    assert stopped.value.code == 2
    with pytest.raises(SystemExit):
        parser().parse_args([])


WRITING = {
    "evaluate": "--index i --queries q.csv --query-images d",
    "evaluate --mode mmsearch": "--index i --queries q.csv --query-images d",
    "sweep": "--index i --queries q.csv --query-images d",
    "mine-negatives": "--index i --queries q.csv --query-images d",
    "train-encoder": "--index i --queries q.csv --query-images d",
    "train-reranker": "--index i --queries q.csv --query-images d --negatives n.json",
    "train-generator": "--index i --queries q.csv --query-images d --base b",
    "tables": "2 --index i --queries q.csv --query-images d",
}


@pytest.mark.parametrize("command", WRITING)
def test_two_processes_do_not_work_in_one_folder(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = [*command.split(), *WRITING[command].split(), "--out", str(out)]
    monkeypatch.chdir(tmp_path)
    lock = out.with_name("out.lock") if command == "mine-negatives" else out
    with locked(lock, f"works on {out}"):
        assert main(arguments) == 2
        assert f"{lock}: is locked by process {os.getpid()} " in (error := capsys.readouterr().err)
        assert f"which works on {out}; only one process may write there: wait until it has ended" in error
        monkeypatch.setenv("RANK", "1")
        assert main(arguments) == 2  # of a training's processes, only the first locks the folder
        assert "is locked" not in capsys.readouterr().err
    monkeypatch.delenv("RANK")
    assert main(arguments) == 2
    assert "is locked" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    arguments = ["--index", str(tmp_path / "i"), "--queries", "q.csv", "--query-images", str(tmp_path)]
    assert main(["evaluate", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert "q.csv" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["demo", "serve", "mcp"])
@pytest.mark.parametrize("number", ["0", "65536", "99999999"])
def test_a_port_is_checked(command: str, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--port", number])
    assert f"--port: must be between 1 and 65535, got {number}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["compare", "train-encoder", "train-reranker", "train-generator"])
def test_seeds_are_not_negative(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--seed", "-1"])
    assert "--seed: must be at least 0, got -1" in capsys.readouterr().err


def test_a_grid_is_a_range_or_a_list() -> None:
    assert grid("0:1:0.25") == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert grid("0.1,0.9") == [0.1, 0.9]
    for wrong in ("", "a", "0:1:0", "0:2:1", "0:inf:0.1", "nan:1:0.1"):
        with pytest.raises(Exception, match=r"neither|between 0 and 1"):
            grid(wrong)


@pytest.mark.skipif(not WEIGHTS.is_dir(), reason="weights/embedded is not there yet")
def test_build_and_ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kb, images = write_kb(tmp_path)
    index, image = str(tmp_path / "index"), str(images / "flag" / "France.png")
    assert main(["build-index", "--kb", str(kb), "--images", str(images), "--out", index, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["entities"] == 7
    assert main(["ask", "--index", index, "--json", image, "How large is the area?"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["candidates"]) == 7
    assert list(answer["timings_ms"]) == ["step1", "step2", "step3", "generate"]

    assert main(["ask", "--set", "search.candidates=title", "--index", index, image, "?"]) == 2
    assert "search.candidates" in capsys.readouterr().err


def test_paths_that_cannot_be_written_are_told_without_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kb, images = write_kb(tmp_path)
    build = ["build-index", "--kb", str(kb), "--images", str(images), "--out"]
    for out in (kb, kb / "index"):
        assert main([*build, str(out)]) == 2
        assert capsys.readouterr().err.endswith(
            ": is a file or inside one, but a folder is needed; choose another place\n"
        )
    inspect = ["kb", "inspect", str(kb), "--html"]
    assert main([*inspect, str(images)]) == 2
    told = f"omgm: error: {images}: is a folder, but a file is needed; choose another name\n"
    assert capsys.readouterr().err.endswith(told)
    assert main([*inspect, str(tmp_path / "none" / "page.html")]) == 2
    assert "page.html.partial: No such file or directory\n" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate", "sweep", "sweep --recognition", "index tokens", "kb check"])
def test_query_images_in_a_tar_file_must_be_unpacked(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.jsonl").write_text('{"image": "a", "question": "What?", "answers": ["x"], "entity": "e"}\n')
    with tarfile.open(tmp_path / "images.tar", "w") as file:
        file.add(tmp_path / "q.jsonl", "a.jpg")
    inputs = ["--dataset", "plain", "--queries", str(tmp_path / "q.jsonl")]
    index = [] if command == "kb check" else ["--index", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*command.split(), *inputs, *index, "--query-images", str(tmp_path / "images.tar")]) == 2
    message = f"omgm: error: --query-images: {tmp_path / 'images.tar'} is not a folder; if it is a tar"
    assert capsys.readouterr().err.startswith(message)


def test_the_help_names_all_data_sets(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    named = "evqa, evqa-all, infoseek, okvqa, dynvqa or plain (evqa); for agents also mmsearch or mmsearch-plus"
    assert named in " ".join(capsys.readouterr().out.split())
