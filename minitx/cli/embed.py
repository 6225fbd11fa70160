"""`minitx embed`: how alike texts are."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from minitx import terminal
from minitx.cli.app import app, notices, refuse, screen

MATRIX = 16  # texts whose matrix fits a terminal
LABEL = 40  # characters of a text that stand before its row


@app.command(
    epilog='Examples: minitx embed "a cat" "a kitten" "a lorry"; minitx embed --file lines.txt --json'
)
def embed(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to compare.")] = None,
    file: Annotated[Path | None, typer.Option(help="More texts, one a line; - reads standard input.")] = None,
    model: Annotated[str, typer.Option(help="minilm, or a folder in BERT's layout.")] = "minilm",
    as_json: Annotated[bool, typer.Option("--json", help="Print texts and similarities as JSON.")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="With --json: the vectors as well.")] = False,
) -> None:
    """Turn texts into vectors with a sentence encoder, and print their similarities (1: the same meaning)."""
    if vectors and not as_json:
        raise typer.BadParameter("--vectors needs --json.")
    read = [*(texts or []), *(_lines(file) if file is not None else [])]
    if not read:
        raise typer.BadParameter("Give texts to compare, or a --file with one a line.")
    for number, text in enumerate(read, 1):
        if not text.strip():
            refuse(f"Text {number} is empty.")
    found = _vectors(model, read)
    likeness = found @ found.T
    if as_json:
        told: dict[str, Any] = {"model": model, "texts": read, "similarities": _rounded(likeness)}
        if vectors:
            told["vectors"] = found.tolist()
        print(json.dumps(told))
    else:
        lines = matrix_lines(read, likeness) if len(read) <= MATRIX else nearest_lines(read, likeness)
        screen.print("\n".join(lines), soft_wrap=True)


def _lines(file: Path) -> list[str]:
    """The lines of a file that are not blank."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        refuse(f"{file} cannot be read: {error.strerror or error}")
    except UnicodeDecodeError as error:
        refuse(
            f"{file} is not UTF-8 text: byte 0x{data[error.start]:02X} at place {error.start}. Convert it."
        )
    return [line.strip() for line in text.splitlines() if line.strip()]


def _vectors(name: str, texts: Sequence[str]) -> Any:
    from minitx import checkpoints
    from minitx.embedding import MAX_LENGTH, sentence_vectors
    from minitx.errors import CheckpointError
    from minitx.models import Bert
    from minitx.wordpiece import WordPiece

    try:
        model, tokenizer = checkpoints.load(name)
    except CheckpointError as error:
        refuse(error)
    if not isinstance(model, Bert):
        refuse(f"{name} holds a {type(model).__name__}, which writes text. To compare texts, use minilm.")
    if not isinstance(tokenizer, WordPiece):
        refuse(f"{name} has no vocab.txt beside its weights, so texts cannot be turned into tokens.")
    longest = min(MAX_LENGTH, model.config.context)
    for number, text in enumerate(texts, 1):
        if (length := len(tokenizer.encode(text))) > longest:
            notices.print(f"Text {number} has {length} tokens: the first {longest} are read.")
    with terminal.progress_bar(notices) as bar:
        task = bar.add_task("embedding", total=len(texts))
        return sentence_vectors(
            model, tokenizer, texts, max_length=longest, progress=lambda count: bar.advance(task, count)
        )


def matrix_lines(texts: Sequence[str], likeness: Any) -> list[str]:
    """The whole matrix, a row for each text."""
    labels = [f"{number:>3}  {_label(text)}" for number, text in enumerate(texts, 1)]
    width = max(map(len, labels))
    head = " " * width + "".join(f"{number:>8}" for number in range(1, len(texts) + 1))
    rows = zip(labels, likeness, strict=True)
    return [head, *(f"{label:<{width}}" + "".join(f"{value:>8.4f}" for value in row) for label, row in rows)]


def nearest_lines(texts: Sequence[str], likeness: Any) -> list[str]:
    """For each text the one that is most like it, where a matrix would be too wide."""
    lines = [f"The nearest of each of {len(texts)} texts (--json prints the whole matrix):"]
    for i, row in enumerate(likeness):
        others = [j for j in range(len(texts)) if j != i]
        best = max(others, key=lambda j: row[j])
        lines.append(
            f"{i + 1:>5}  {_label(texts[i]):<{LABEL}}  {row[best]:.4f}  {best + 1:>5}  {_label(texts[best])}"
        )
    return lines


def _label(text: str) -> str:
    """The start of a text as one line; nothing in it reaches the terminal as a command."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= LABEL else f"{plain[: LABEL - 3]}..."


def _rounded(likeness: Any) -> list[list[float]]:
    """Six digits: what lies behind them is rounding."""
    return [[round(float(value), 6) for value in row] for row in likeness]
