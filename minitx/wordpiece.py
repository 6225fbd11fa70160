"""WordPiece: the tokenizer of BERT and its kin, which reads lower case without accents."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from minitx.errors import CheckpointError

CLASSIFY, SEPARATE, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN, CLASSIFY, SEPARATE, "[MASK]")
LONGEST_WORD = 100  # characters; a longer one becomes [UNK], as in BERT

# Blocks of ideographs, in which every character is a word. The last but one starts where the `tokenizers`
# library starts it (0x2B920; BERT's own code says 0x2B820), since that is what checkpoints are used with.
IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Text to ids and back by the longest pieces of a vocabulary (Devlin et al. 2018, arXiv:1810.04805).

    Text is cleaned (control characters go, every white space is a space), lower-cased and stripped of
    accents, and cut at white space and punctuation. Each word is then taken apart from the left: the longest
    piece of the vocabulary that begins it, then the longest "##" piece that goes on, to its end; a word for
    which this fails becomes [UNK] as a whole.

    Args:
        vocabulary: the pieces in the order of their ids, [UNK], [CLS] and [SEP] among them.

    A special token that is typed in a text is ordinary text. Which characters are accents and punctuation is
    asked of Python's Unicode tables; the `tokenizers` library has older ones, and the two may differ on
    characters that came after Unicode 8.

    Raises ValueError for a vocabulary with a piece twice or without those three.
    """

    kind: ClassVar[str] = "wordpiece"  # what `as_dict` calls it

    def __init__(self, vocabulary: Sequence[str]):
        self.pieces = list(vocabulary)
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}
        if len(self.ids) != len(self.pieces):
            twice = next(piece for i, piece in enumerate(self.pieces) if self.ids[piece] != i)
            raise ValueError(f"The vocabulary holds {twice!r} twice: each piece needs one id.")
        missing = [token for token in (UNKNOWN, CLASSIFY, SEPARATE) if token not in self.ids]
        if missing:
            raise ValueError(
                f"The vocabulary lacks {' '.join(missing)}: is it that of a WordPiece tokenizer?"
            )
        self._longest = max(map(len, self.pieces))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordPiece:
        """Read a vocab.txt, one piece a line. Raises CheckpointError for one that cannot be read or used."""
        try:
            lines = Path(path).read_text(encoding="utf-8").split("\n")
            return cls([line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)])
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise CheckpointError(f"{path} is no vocabulary of WordPiece: {error}") from error

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def encode(self, text: str, max_length: int | None = None) -> list[int]:
        """[CLS] pieces [SEP] as ids; with max_length the pieces behind it are dropped, and [SEP] stays.

        Raises ValueError for a max_length that has no room for [CLS] and [SEP].
        """
        if max_length is not None and max_length < 2:
            raise ValueError(f"max_length must be at least 2, for [CLS] and [SEP], got {max_length}.")
        ids = [i for word in words(text) for i in self._pieces_of(word)]
        kept = ids if max_length is None else ids[: max_length - 2]
        return [self.ids[CLASSIFY], *kept, self.ids[SEPARATE]]

    def decode(self, ids: Iterable[int]) -> str:
        """The pieces joined: "##" ones to the piece before, others with a space; special tokens are left out.

        Case, accents and spacing of the text that was encoded are lost. Raises ValueError for an id outside
        the vocabulary.
        """
        text = ""
        for number in ids:
            i = int(number)
            if not 0 <= i < len(self.pieces):
                raise ValueError(f"ids must lie in 0 ... {len(self.pieces) - 1}, got {i}.")
            piece = self.pieces[i]
            if piece not in SPECIAL:
                text += piece[2:] if piece.startswith("##") else f" {piece}"
        return text.removeprefix(" ")

    def as_dict(self) -> dict[str, Any]:
        """What `from_dict` makes the same tokenizer of; goes into JSON."""
        return {"kind": self.kind, "vocabulary": self.pieces}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> WordPiece:
        """The tokenizer that `as_dict` described."""
        return cls(state["vocabulary"])

    def _pieces_of(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self.ids[UNKNOWN]]
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            end = min(len(word), start + self._longest)
            while end > start and mark + word[start:end] not in self.ids:
                end -= 1
            if end == start:
                return [self.ids[UNKNOWN]]
            found.append(self.ids[mark + word[start:end]])
            start = end
        return found


def words(text: str) -> Iterator[str]:
    """The words of a text, cleaned: lower case, no accents, every punctuation mark and ideograph a word."""
    spaced = "".join(f" {c} " if _is_ideograph(c) else c for c in _clean(text))
    bare = (c for c in unicodedata.normalize("NFD", spaced) if unicodedata.category(c) != "Mn")
    # Letter by letter: str.lower() of a whole word would make its last sigma another one.
    for run in "".join(c.lower() for c in bare).split():
        start = 0
        for i, c in enumerate(run):
            if _is_punctuation(c):
                if start < i:
                    yield run[start:i]
                yield c
                start = i + 1
        if start < len(run):
            yield run[start:]


def _clean(text: str) -> Iterator[str]:
    """The characters without those that are not text: control, format, private use, halves of a pair."""
    for c in text:
        if c in "\t\n\r":
            yield " "
        elif c != "\ufffd" and unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs"):
            yield " " if c.isspace() else c


def _is_ideograph(c: str) -> bool:
    return any(first <= ord(c) <= last for first, last in IDEOGRAPHS)


def _is_punctuation(c: str) -> bool:
    """Unicode's punctuation, and in ASCII all that is neither letter, digit nor space ($, +, ^, ...)."""
    if c.isascii():
        return not c.isalnum() and c > " "
    return unicodedata.category(c).startswith("P")
