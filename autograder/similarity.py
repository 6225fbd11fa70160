"""Similar pairs: winnowing over normalised tokens. A hint where to look, never a verdict.

Comments, blanks and docstrings are dropped, names of variables, numbers and strings replaced by one
placeholder each, so that renaming hides nothing. Of every K tokens in a row a hash is taken, and of every
W hashes in a row the least is kept: a passage of W + K - 1 tokens that two answers share is always found.
What the release, the reference and the bank hold is left out, and so is what many share: common knowledge.

Schleimer, Wilkerson, Aiken: "Winnowing: Local Algorithms for Document Fingerprinting", SIGMOD 2003.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

K, W = 8, 5
LEAST_SHARED, LEAST_SHARE = 6, 0.3
COMMON_SHARE, COMMON_LEAST = 0.1, 3  # held by more than this share of the class, and by more than so many
MAX_TOKENS = 20_000

_LEXER = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<string>[rbfuRBFU]{0,2}(?:'''(?:[^\\]|\\.)*?(?:'''|\Z)|\"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\Z)
        |'(?:[^'\\\n]|\\.)*'?|"(?:[^"\\\n]|\\.)*"?))
    |(?P<number>\d[\w.]*)
    |(?P<name>[^\W\d]\w*)
    |(?P<newline>\n)
    |(?P<blank>[^\S\n]+|\\\n)
    |(?P<operator>\*\*=?|//=?|>>=?|<<=?|[-+*/%@&|^=<>!]=|->|:=|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    text: str
    line: int  # from 1


@dataclass(frozen=True)
class Pair:
    """Two answers that share rare passages. `share` is of the smaller one's rare fingerprints."""

    one: str
    other: str
    shared: int
    share: float
    lines: tuple[frozenset[int], frozenset[int]]  # where the shared passages stand in each


def tokens_of(source: str) -> list[Token]:
    """The tokens of Python text, of any text: nothing is parsed, so a syntax error does not matter."""
    found: list[Token] = []
    line, before, starts_line = 1, "", True
    for match in _LEXER.finditer(source):
        kind, text = match.lastgroup, match[0]
        if kind == "newline":
            starts_line = True
        elif kind not in ("comment", "blank") and not (kind == "string" and starts_line):
            found.append(Token(_normal(kind or "", text, before), line))
            before, starts_line = text, False
            if len(found) >= MAX_TOKENS:
                break
        line += text.count("\n")
    return found


def _normal(kind: str, text: str, before: str) -> str:
    """What stands for a token. A name after a dot belongs to a library, and stays."""
    if kind == "name":
        return text if keyword.iskeyword(text) or before == "." else "v"
    return {"string": "s", "number": "0"}.get(kind, text)


def fingerprints(source: str) -> dict[int, set[int]]:
    """The kept hashes of a text, each with the lines of the passages that it stands for."""
    tokens = tokens_of(source)
    hashes = [
        int.from_bytes(
            hashlib.blake2b(" ".join(t.text for t in tokens[i : i + K]).encode(), digest_size=8).digest()
        )
        for i in range(len(tokens) - K + 1)
    ]
    kept: dict[int, set[int]] = {}
    chosen = -1
    for start in range(max(0, len(hashes) - W + 1) or bool(hashes)):
        window = range(start, min(start + W, len(hashes)))
        least = min(window, key=lambda i: (hashes[i], -i))  # of equal ones the last, as in the paper
        if least != chosen:
            chosen = least
            lines = kept.setdefault(hashes[least], set())
            lines.update(token.line for token in tokens[least : least + K])
    return kept


def similar_pairs(
    answers: Mapping[str, str], known: Iterable[str] = (), most: int = 50
) -> tuple[list[Pair], int]:
    """The most similar pairs of answers, and how many students may share a passage before it is common.

    `answers`: a student's own code, by name. `known`: text that anyone may have: release, reference, bank.
    """
    ignored = {mark for text in known for mark in fingerprints(text)}
    marks = {name: fingerprints(text) for name, text in answers.items()}
    holders: dict[int, list[str]] = defaultdict(list)
    for name in sorted(marks):
        for mark in marks[name]:
            if mark not in ignored:
                holders[mark].append(name)
    common = max(COMMON_LEAST, int(COMMON_SHARE * len(answers)))
    rare = {mark: names for mark, names in holders.items() if len(names) <= common}
    sizes = Counter(name for names in rare.values() for name in names)
    shared: Counter[tuple[str, str]] = Counter(
        pair for names in rare.values() for pair in combinations(names, 2)
    )
    pairs = []
    for (one, other), count in shared.items():
        share = count / min(sizes[one], sizes[other])
        if count >= LEAST_SHARED and share >= LEAST_SHARE:
            both = [mark for mark in marks[one] if mark in rare and mark in marks[other]]
            lines = (_lines(marks[one], both), _lines(marks[other], both))
            pairs.append(Pair(one, other, count, share, lines))
    pairs.sort(key=lambda pair: (-pair.share, -pair.shared, pair.one, pair.other))
    return pairs[:most], common


def _lines(marks: Mapping[int, set[int]], chosen: Sequence[int]) -> frozenset[int]:
    return frozenset(line for mark in chosen for line in marks[mark])
