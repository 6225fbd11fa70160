"""What `minitx generate` shows of attention: which weights, as a heat map or as a picture."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from minitx.cli.app import refuse, screen

if TYPE_CHECKING:
    from minitx.cli.transcript import Row
    from minitx.models import Decoder
    from minitx.tokenizers import Tokenizer

LARGEST = 512  # tokens: the weights of all heads of all layers are in memory at once
LARGEST_PICTURE = 64
PICTURES = (".png", ".svg", ".pdf")
FIRST_WITHOUT_GLYPH = 0x2E80  # ideographs and pictures, which Matplotlib's own font does not have


@dataclass(frozen=True)
class Seen:
    """The weights (n, n) of one text, and a name for each token."""

    weights: np.ndarray
    labels: list[str]
    layer: int
    head: int | None

    @property
    def title(self) -> str:
        heads = "mean of all heads" if self.head is None else f"head {self.head}"
        return f"Attention in layer {self.layer}, {heads}: each row reads from the columns"

    def as_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "head": self.head,
            "tokens": self.labels,
            "weights": self.weights.tolist(),
        }


@dataclass(frozen=True)
class View:
    """Which weights are wanted and where. The checks say no before anything is computed."""

    show: bool
    picture: Path | None
    layer: int | None
    head: int | None

    @property
    def wanted(self) -> bool:
        return self.show or self.picture is not None

    def check_options(self, texts: int) -> None:
        if not self.wanted and (self.layer, self.head) != (None, None):
            raise typer.BadParameter("--layer and --head go with --show-attention or --save-attention.")
        if self.picture is None:
            return
        if self.picture.suffix.lower() not in PICTURES:
            raise typer.BadParameter(
                f"--save-attention writes {', '.join(PICTURES)}, got {self.picture.name}."
            )
        if texts > 1:
            raise typer.BadParameter(f"--save-attention draws one text, got {texts} prompts.")
        if not self.picture.parent.is_dir():
            refuse(f"{self.picture} cannot be written: there is no folder {self.picture.parent}.")

    def check_layers(self, model: Decoder) -> None:
        sizes = {"layer": len(model.blocks), "head": model.blocks[0].attention.n_heads}
        for name, size in sizes.items():
            wanted = getattr(self, name)
            if wanted is not None and wanted >= size:
                raise typer.BadParameter(
                    f"--{name} must lie in 0 ... {size - 1} for this model, got {wanted}."
                )

    def check_length(self, model: Decoder, tokens: int) -> None:
        most = min(LARGEST if self.picture is None else LARGEST_PICTURE, model.config.context)
        if self.wanted and tokens > most:
            refuse(
                f"Attention can be drawn here for {most} tokens at most; prompt and new tokens may come to "
                f"{tokens}. Lower --max-new-tokens or shorten the prompt."
            )

    def of(self, model: Decoder, tokenizer: Tokenizer, row: Row) -> Seen:
        """The weights of a finished text."""
        from minitx.cli.heatmap import token_label

        ids = [*row.prompt_ids, *row.ids]
        layer = len(model.blocks) - 1 if self.layer is None else self.layer
        heads = model.attention_weights(np.array([ids]))[layer][0]  # (H, n, n)
        weights = heads.mean(axis=0) if self.head is None else heads[self.head]
        return Seen(weights, [token_label(tokenizer.token_bytes(token)) for token in ids], layer, self.head)

    def draw(self, seen: Seen, *, on_screen: bool) -> None:
        from minitx.cli.heatmap import heatmap_lines

        if self.show and on_screen:
            ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
            lines = heatmap_lines(seen.weights, seen.labels, screen.width, ascii_only=ascii_only)
            screen.print("\n".join(["", seen.title, *lines]), soft_wrap=True)
        if self.picture is not None:
            save_picture(seen, self.picture)


def save_picture(seen: Seen, path: Path) -> None:
    """The weights as `minitx.figures` draws them."""
    import matplotlib as mpl

    mpl.use("agg")  # a file is wanted, no window
    from minitx.figures import attention_heatmap

    labels = [_drawable(label) for label in seen.labels]
    figure: Any = attention_heatmap(seen.weights, labels, labels, seen.title).figure
    try:
        figure.savefig(path)
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror or error}")


def _drawable(label: str) -> str:
    """A label that Matplotlib can draw: dollar signs enclose formulas, and some characters have no glyph."""
    plain = "".join(
        c if ord(c) < FIRST_WITHOUT_GLYPH else c.encode("ascii", "backslashreplace").decode() for c in label
    )
    return plain.replace("$", r"\$")
