"""Text to ids and back: one id a character, or GPT-2's byte-level byte-pair encoding.

    tokenizer = ByteLevelBPE.train(text, vocab_size=1000)
    ids = tokenizer.encode("Hello")
    tokenizer.decode(ids)

`Tokenizer` says what both have in common.
"""

from __future__ import annotations

from typing import Any

from minitx.errors import CheckpointError
from minitx.tokenizers.bpe import ByteLevelBPE
from minitx.tokenizers.characters import CharacterTokenizer
from minitx.tokenizers.interface import Tokenizer
from minitx.tokenizers.streaming import StopStrings, StreamingDecoder
from minitx.tokenizers.words import WordTokenizer

__all__ = [
    "ByteLevelBPE",
    "CharacterTokenizer",
    "StopStrings",
    "StreamingDecoder",
    "Tokenizer",
    "WordTokenizer",
    "from_dict",
]

_KINDS: dict[str, type[Tokenizer]] = {
    kind.kind: kind for kind in (CharacterTokenizer, ByteLevelBPE, WordTokenizer)
}


def from_dict(stored: dict[str, Any]) -> Tokenizer:
    """The tokenizer whose `as_dict()` this is. Raises CheckpointError for anything else."""
    kind = stored.get("kind") if isinstance(stored, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise CheckpointError(
            f"A stored tokenizer is of the kind {' or '.join(map(repr, _KINDS))}, got {kind!r}."
        )
    return _KINDS[kind].from_dict(stored)
