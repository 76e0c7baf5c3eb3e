"""The commands: what each is for, and under which names they were before.

A command is a module: `omgm kb inspect` is `kb_inspect.py`, with `add_arguments(parser)` and `run(args)`. Nothing heavy
is imported before `run`.
"""

from __future__ import annotations

GROUPS = {
    "ask": {
        "demo": "Run the demo: write a small knowledge base of flags and dishes, index and serve it, and ask questions",
        "ask": "Answer a question about an image, by retrieval or with a search agent",
        "serve": "Serve an index over HTTP, with a page at /; with --kb, build the index first",
        "mcp": "Serve an index to language models: an MCP server over stdio, or over HTTP",
        "doctor": "Report what this machine has, which profiles can run on it, and what is missing",
        "download": "Download the weights of a profile, the published prompts of agents, or web pages to replay",
    },
    "build": {
        "build-index": "Build the index of a knowledge base; run it again to resume a killed build",
        "index": "Change, inspect, measure or publish an index",
        "kb": "Inspect a knowledge base, download its images, or check questions about it",
        "import": "Convert what other systems wrote: a checkpoint, summaries and vectors, or questions",
    },
    "train": {
        "train-encoder": "Adapt step 1 to a knowledge base and labeled images, or with --sections step 3 to questions",
        "mine-negatives": "Find hard negatives: the entities that step 1 ranks highest for each training question",
        "train-reranker": "Train step 2's fusion encoder on questions with mined negatives; under torchrun, on several "
        "devices",
        "train-generator": "Fine-tune the generator with LoRA on evidence that OMGM retrieves",
        "sweep": "Tune alpha and beta, or with --recognition when an image counts as recognized; writes a profile",
    },
    "evaluate": {
        "evaluate": "Evaluate every step and the answers, or a search agent, on the questions of a data set",
        "compare": "Compare runs, with confidence intervals and significance",
        "tables": "Reproduce the paper's tables and figures, next to its published numbers",
    },
}
"""What each command is for, by what people do."""
ACTIONS = {
    "index": {
        "add": "Add the articles of a knowledge base, or replace those of the same ids; unchanged ones are skipped",
        "remove": "Remove entities",
        "calibrate": "Measure again which images count as recognized, as a build does, after many changes",
        "compact": "Write all changes into new files, which then replace the old ones",
        "verify": "Compare the checksums of all files and changes",
        "info": "Say what an index holds",
        "tokens": "Compare codecs of section tokens, from an index of float16 tokens: size, error and recall of each",
        "push": "Publish an index or a trained model on the Hugging Face hub, with its card",
    },
    "kb": {
        "inspect": "Show some entities of a knowledge base as they are read, with counts and problems; build nothing",
        "images": "Download the images of a knowledge base or of questions; run it again to resume",
        "check": "Say whether questions and their images can be used, and what a knowledge base covers; exit status 1 "
        "if not",
    },
    "import": {
        "encoder": "Convert a checkpoint of EVA's repository (EVA-CLIP-8B or -18B) into a folder for step 1",
        "reranker": "Convert a .pth file of LAVIS, OMGM or EchoSight into a folder for step 2",
        "index": "Build an index from summaries or vectors of summaries (FAISS) that another system computed",
        "questions": "Write a Hugging Face dataset from save_to_disk as a question file with images (--dataset plain)",
    },
}
"""What each action of a command with actions is for."""
COMMANDS = {name: about for group in GROUPS.values() for name, about in group.items()}

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
