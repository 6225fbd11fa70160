"""Texts to vectors: which texts mean much the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minitx.graph import no_grad
from minitx.models.bert import Bert
from minitx.wordpiece import WordPiece

MAX_LENGTH = 256  # tokens; the sentence encoder all-MiniLM-L6-v2 reads no more of a text


def sentence_vectors(
    model: Bert,
    tokenizer: WordPiece,
    texts: Sequence[str],
    *,
    batch: int = 32,
    max_length: int = MAX_LENGTH,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """One vector of length 1 for each text (len(texts), d_model), in the dtype of the model.

    The product of two vectors, vectors @ vectors.T, is the similarity of two texts: 1 for the same meaning,
    near 0 for none in common. Of a longer text the first `max_length` tokens are read, [CLS] and [SEP] among
    them. Texts of much the same length share a batch; a text's vector does not depend on what it is batched
    with.

    progress: called after each batch with the number of its texts.

    Raises ValueError for a max_length beyond the model's context, TypeError for one string in place of
    several.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts must be a sequence of strings, got the string {texts[:40]!r}: write [text].")
    if max_length > model.config.context:
        raise ValueError(f"max_length {max_length} is beyond the model's context of {model.config.context}.")
    rows = [tokenizer.encode(text, max_length) for text in texts]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    vectors = np.empty((len(rows), model.config.d_model), model.tokens.weight.dtype)
    was_training = model.training
    model.eval()
    try:
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            ids, lengths = padded([rows[i] for i in chosen])
            with no_grad():
                vectors[chosen] = model.sentence_vectors(ids, lengths=lengths).numpy()
            if progress is not None:
                progress(len(chosen))
    finally:
        model.train(was_training)
    return vectors


def padded(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids side by side (B, longest), zeros on the right; and their lengths (B,)."""
    lengths = np.array([len(row) for row in rows], np.int64)
    ids = np.zeros((len(rows), lengths.max()), np.int64)
    for row, line in zip(rows, ids, strict=True):
        line[: len(row)] = row
    return ids, lengths
