"""The words of the reasoning: one token each, and one for each number."""

from __future__ import annotations

from collections.abc import Iterable

from minitx.tokenizers import WordTokenizer

START, END, PAD = "<start>", "<end>", "<pad>"
LARGEST_NUMBER = 120
SENTENCES = """
    . : speed m/s lane of from the left right road straight for m turns by degrees within lead car ahead no
    it is as fast faster slower free taken therefore change to keep and slow down up
"""
TOKENIZER = WordTokenizer([*SENTENCES.split(), *map(str, range(LARGEST_NUMBER + 1))], [START, END, PAD])
START_ID, END_ID, PAD_ID = (TOKENIZER.special_tokens[token] for token in (START, END, PAD))


def encode(text: str) -> list[int]:
    """The ids of a text, without START and END. Raises ValueError naming a word that is not known."""
    try:
        return TOKENIZER.encode(text)
    except ValueError as error:
        raise ValueError(f"{error} Numbers go up to {LARGEST_NUMBER}; try the words of a scene.") from None


def decode(ids: Iterable[int]) -> str:
    """The text of ids up to END."""
    said = []
    for number in ids:
        if TOKENIZER.check_id(number) == END_ID:
            break
        said.append(number)
    return TOKENIZER.decode(said).strip()
