"""One id for each character: the smallest tokenizer, and enough for a tiny model."""

from __future__ import annotations

from typing import Any

from minitx.errors import CheckpointError
from minitx.tokenizers.interface import Tokenizer, check_text


class CharacterTokenizer(Tokenizer):
    """The characters of `text`, each once, sorted by code point; a character's place is its id.

    Raises ValueError for an empty text. `encode` raises ValueError for a character that `text` lacks.
    """

    kind = "characters"

    def __init__(self, text: str):
        self.characters = "".join(sorted(set(check_text(text))))
        if not self.characters:
            raise ValueError("The text is empty: its characters are to be the vocabulary.")
        self.special_tokens = {}
        self._ids = {character: i for i, character in enumerate(self.characters)}
        self._token_bytes = [character.encode() for character in self.characters]

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """See `Tokenizer.encode`; there are no special tokens."""
        if not isinstance(text, str):
            check_text(text)
        ids = self._ids
        try:
            return [ids[character] for character in text]
        except KeyError as error:
            raise self._unknown(text, error.args[0]) from None

    def _unknown(self, text: str, character: str) -> ValueError:
        place = text.index(character)
        line = text.count("\n", 0, place) + 1
        return ValueError(
            f"The character {character!r} (U+{ord(character):04X}) at place {place}, line {line}, is none "
            f"of the {self.vocab_size} of this vocabulary. Leave it out or write it another way, or build "
            "the vocabulary from a text that has it; a byte-level BPE tokenizer can write every text."
        )

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "characters": self.characters}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> CharacterTokenizer:
        characters = stored.get("characters")
        if not isinstance(characters, str) or not characters or list(characters) != sorted(set(characters)):
            raise CheckpointError('A stored character tokenizer has "characters": sorted, and each once.')
        try:
            return cls(characters)
        except ValueError as error:
            raise CheckpointError(f"The stored characters cannot be used: {error}") from None
