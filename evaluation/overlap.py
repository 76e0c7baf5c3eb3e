"""Token overlap of an answer with references: Dyn-VQA's F1-Recall as published, and a corrected token F1."""

from __future__ import annotations

import functools
import importlib.util
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

from evaluation.vqa import vqa_process
from indexes.extras import optional

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_HAN}]|[^\W{_HAN}]+(?:'[^\W{_HAN}]+)*")
_SENTENCE_END = re.compile(r"(?<=\w\w)([.?!])(?=\s)")
_DROPPED = {
    "en": ",.?!:;'\"",
    "zh": "\uff0c\u3001\u3002 ,.\u300a\u300b",
}  # a token is dropped if it is a substring of this


def token_f1(answer: str, references: Sequence[str]) -> float:
    """Returns the F1 (0 to 1) of an answer's tokens against the best reference's, counting repetitions.

    Unlike F1-Recall, it processes both sides alike (`vqa_process`), penalizes superfluous words through precision, and
    needs no segmenter: a token is a word or a single Chinese character.

    Example:
        >>> token_f1("It was painted by Vincent van Gogh", ["Vincent van Gogh"])
        0.6
    """
    return max((_f1(_tokens(reference), _tokens(answer)) for reference in references), default=0.0)


def f1_recall(answer: str, references: Sequence[str], language: str) -> float:
    """Returns Dyn-VQA's F1-Recall as its script computes it: the share of the best reference's tokens in the answer.

    Despite its name, it is a recall: an answer that lists everything is right. Only the answer is stripped of
    punctuation and articles and gets digits for number words, so answering "The Beatles" when that is the reference
    scores one half.

    Args:
        answer: The answer.
        references: Alternatives, in any language.
        language: The question's language, `en` (NLTK's word tokenizer) or `zh` (jieba).

    Raises:
        ValueError: The language is not supported, or its tokenizer is not installed.
    """
    tokenize = _tokenizer(language)
    processed = vqa_process(answer.replace("\n", " ").replace("\t", " ").strip())
    if not processed:
        return 0.0
    given = _kept(tokenize(processed), language)
    return max((_recall(_kept(tokenize(reference), language), given) for reference in references), default=0.0)


def can_segment() -> bool:
    """Returns whether the tokenizers of `f1_recall` are installed (the extra `dynvqa`)."""
    return all(importlib.util.find_spec(name) is not None for name in ("nltk", "jieba"))


@functools.cache
def has_sentences() -> bool:
    """Returns whether NLTK's model of English sentences is here, which the published script downloads."""
    if not can_segment():
        return False
    data = optional("nltk.data", "dynvqa", "F1-Recall")
    try:
        data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        return False
    return True


def language_of(text: str) -> str:
    """Returns `zh` for a text with a Chinese character, else `en`.

    Example:
        >>> language_of("\u8fd9\u662f\u4ec0\u4e48"), language_of("What is this?")
        ('zh', 'en')
    """
    return "zh" if re.search(f"[{_HAN}]", text) else "en"


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(vqa_process(text))


def _f1(reference: list[str], given: list[str]) -> float:
    common = _common(reference, given)
    return 2 * common / (len(reference) + len(given)) if common else 0.0


def _recall(reference: list[str], given: list[str]) -> float:
    if not reference or not given:
        return float(reference == given)
    return _common(reference, given) / len(reference)


def _common(reference: list[str], given: list[str]) -> int:
    return (Counter(reference) & Counter(given)).total()


def _kept(tokens: Sequence[str], language: str) -> list[str]:
    return [token for token in tokens if token not in _DROPPED[language]]


@functools.cache
def _tokenizer(language: str) -> Callable[[str], Sequence[str]]:
    if language not in _DROPPED:
        raise ValueError(f"language must be en or zh, got {language!r}")
    return _english() if language == "en" else _chinese()


def _english() -> Callable[[str], Sequence[str]]:
    if has_sentences():
        word_tokenize = optional("nltk.tokenize", "dynvqa", "F1-Recall").word_tokenize
        return lambda text: list(word_tokenize(text.lower()))
    words = optional("nltk.tokenize.destructive", "dynvqa", "F1-Recall").NLTKWordTokenizer()
    # without that model; this only moves the final points of sentences
    return lambda text: words.tokenize(_SENTENCE_END.sub(r" \1", text.lower()))


def _chinese() -> Callable[[str], Sequence[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its source has deprecated escapes
        jieba = optional("jieba", "dynvqa", "F1-Recall")
    jieba.setLogLevel(logging.WARNING)
    return lambda text: " ".join(jieba.cut(text)).split()
