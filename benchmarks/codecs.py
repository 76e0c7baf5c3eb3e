"""Times step 2's late interaction on the CPU for each token codec: unpacking and comparing tokens, one query at a time.

    python benchmarks/codecs.py --sections 20 140 540 --length 128 --out FILE

A store of random tokens is encoded with each codec. A query has 20 candidates at random places in it, with `--sections`
sections in total. Milliseconds are medians; `unpack` covers reading and unpacking, `max_sim` everything.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.maxsim import as_markdown
from evaluation.codecs import CODECS
from evaluation.commit import commit
from indexes.tokens import TokenStore
from retriever.codecs import encode_tokens
from retriever.files import write_json
from retriever.maxsim import max_sim_spans
from retriever.token_codec import TokenCodec

TOKENS = 32
CANDIDATES = 20
_WARM_UP = 3


def make_store(codec: TokenCodec, rows: int, length: int) -> TokenStore:
    """Builds a store of random unit tokens."""
    generator = torch.Generator().manual_seed(0)
    exact = functional.normalize(torch.randn(rows, TOKENS, length, generator=generator), dim=-1)
    encoded = encode_tokens(exact, codec)
    scales = np.zeros((0, 0), np.float16) if encoded.scales is None else encoded.scales.numpy()
    return TokenStore(codec, encoded.values.numpy(), scales)


def make_spans(sections: int, rows: int, seed: int) -> list[range]:
    """Draws places for candidates with `sections` sections in total, divided as evenly as possible."""
    rng = np.random.default_rng(seed)
    sizes = [sections // CANDIDATES + (candidate < sections % CANDIDATES) for candidate in range(CANDIDATES)]
    return [range(start, start + size) for size in sizes for start in [int(rng.integers(0, rows - size + 1))]]


def median_ms(runs: Sequence[Callable[[], object]], rounds: int) -> float:
    """Returns the median time in milliseconds of runs that take turns."""
    times = []
    for number in range(_WARM_UP + rounds):
        for run in runs:
            started = time.perf_counter()
            run()
            if number >= _WARM_UP:
                times.append((time.perf_counter() - started) * 1000)
    return float(np.median(times))


@torch.inference_mode()
def measure(codec: TokenCodec, sections: int, rows: int, length: int, rounds: int) -> dict[str, Any]:
    """Measures a codec with one number of sections and returns its row."""
    store = make_store(codec, rows, length)
    query = torch.randn(1, TOKENS, length, generator=torch.Generator().manual_seed(1))
    places = [make_spans(sections, rows, seed) for seed in range(8)]  # tokens must come from memory, not from a cache

    def score(spans: list[range]) -> object:
        return max_sim_spans(query, store.gather(spans), [0] * len(spans), spans)

    return {
        "codec": codec.name,
        "length": length,
        "sections": sections,
        "bytes_per_section": codec.bytes_per_section((TOKENS, length)),
        "unpack_ms": round(median_ms([lambda s=spans: store.gather(s) for spans in places], rounds), 3),  # type: ignore[misc]
        "max_sim_ms": round(median_ms([lambda s=spans: score(s) for spans in places], rounds), 3),  # type: ignore[misc]
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codecs", nargs="+", default=CODECS, metavar="NAME", help="(a choice of all)")
    parser.add_argument("--sections", type=int, nargs="+", default=[20, 140, 540], metavar="S", help="(%(default)s)")
    parser.add_argument("--length", type=int, default=128, metavar="H", help="length of a token (%(default)s)")
    parser.add_argument("--rows", type=int, default=2_000, metavar="R", help="sections in the store (%(default)s)")
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="turns of 8 queries (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write JSON")
    args = parser.parse_args(argv)
    if min(*args.sections, args.length, args.rounds) < 1 or args.rows < max(args.sections):
        parser.error("all numbers must be at least 1, and --rows at least --sections")
    table = [
        measure(TokenCodec.parse(name), sections, args.rows, args.length, args.rounds)
        for sections in args.sections
        for name in args.codecs
    ]
    device = f"CPU, {torch.get_num_threads()} threads"
    print(f"{device}, PyTorch {torch.__version__}\n\n{as_markdown(table)}")
    if args.out:
        command = " ".join(["python", "benchmarks/codecs.py", *(sys.argv[1:] if argv is None else argv)])
        report = {"command": command, "commit": commit(), "device": device, "torch": torch.__version__, "rows": table}
        write_json(args.out, report)


if __name__ == "__main__":
    main()
