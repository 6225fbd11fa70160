"""Your code inside a real model: a student's attention takes the place of the library's.

    from minitx.course import inside

    print(inside.a_model("driving", attention=my_attention))
    print(inside.a_model("smollm2", attention=my_attention, prompt="The traffic light"))

The model writes twice, greedily: with the library's attention, and with `my_attention(q, k, v, mask)` in
every layer. Everything else of it stays: its weights, projections, positions and cache. The two texts are
compared, and so is every single output on the way, so that a difference can be named where it begins.

Where the whole model is the student's, as in the unit gpt, its weights come by the names of that unit:
`parameters_of`, `weights_of` and `turns_of`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minitx.functional as F
from minitx.course import check
from minitx.errors import CheckpointError
from minitx.generation import generate
from minitx.graph import no_grad
from minitx.models.decoder import Decoder
from minitx.nn import MultiHeadAttention, Parameter
from minitx.tensor import Tensor

Attention = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Any]

AXES = ("batch", "head", "query", "value")
RTOL = 1e-3  # of the largest number of an output: float32 in another order, not another formula
SCENES = (3, 14, 15)  # seeds of the scenes that the driving model reasons about
PROMPT = "The traffic light turns red, so the car"


class Stopped(Exception):
    """The student's function raised, or returned what no model can go on with."""


@dataclass
class Comparison:
    """What came of a model with the library's attention and with a student's. `print` it.

    name: of the model; missing: why it is not here, or "".
    library, own: the texts that the two wrote; calls: how often the student's attention was asked.
    problem: what stopped the student's run, or ""; difference: where an output first differed, or "".
    """

    name: str
    missing: str = ""
    library: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    calls: int = 0
    problem: str = ""
    difference: str = ""

    @property
    def same(self) -> bool:
        """True when the model wrote the same texts with the student's attention, whose outputs agreed."""
        return bool(self.library) and self.own == self.library and not (self.problem or self.difference)

    def __str__(self) -> str:
        if self.missing:
            return f"{self.name}: left out, since it is not installed here.\n  {self.missing}"
        if self.problem:
            return f"{self.name}: your attention could not run inside the model.\n{_indented(self.problem)}"
        if self.same:
            texts = "\n".join(_indented(text) for text in self.own)
            head = f"{self.name}: the same text with your attention, which was called {self.calls:,} times."
            return f"{head}\n{texts}"
        if self.own == self.library:
            lines = [f"{self.name}: the same text, but by luck: your attention gives other numbers."]
        else:
            lines = [f"{self.name}: the text is not the same."]
        for library, own in zip(self.library, self.own, strict=True):
            if library != own:
                lines += ["  The library's:", _indented(_indented(library))]
                lines += ["  Yours:", _indented(_indented(own))]
        if self.difference:
            lines += ["The first output of your attention that differs:", _indented(self.difference)]
        else:
            lines.append(
                "All outputs agree up to rounding. Rounding decided between two words that were close."
            )
        return "\n".join(lines)


def a_model(
    model: str | Decoder,
    *,
    attention: Attention,
    prompt: str | list[int] | None = None,
    new_tokens: int = 24,
) -> Comparison:
    """Let a model write with the library's attention and with the student's, and compare.

    Args:
        model: "driving", which reasons about scenes of traffic; another name or path that
            `minitx.checkpoints.load` knows; or a GPT or Llama itself.
        attention: (q, k, v, mask) -> output, or (output, weights). q is (batch, heads, n, d), k and v are
            (batch, kv_heads, m, d), where kv_heads divides heads; mask is boolean, (batch or 1, heads or 1,
            n, m), True = may attend. NumPy arrays, in float32 for the models of the course.
        prompt: a text, or ids for a model that is passed itself. "driving" reads scenes when there is none.
        new_tokens: how many tokens follow a prompt.

    A model that is not installed is no error: `missing` of the result says what to do. Neither is a function
    that raises or returns a wrong shape: `problem` says what came. The model is as it was afterwards.

    Raises TypeError for an attention that cannot be called or a model without attention layers to replace,
    and CheckpointError for a name that there is not.
    """
    if not callable(attention):
        raise TypeError(f"attention must be a function (q, k, v, mask), got {type(attention).__name__}.")
    name = model if isinstance(model, str) else type(model).__name__
    try:
        decoder, write = _writer(model, prompt, new_tokens)
    except CheckpointError as error:
        if name not in _names():
            raise
        return Comparison(name, missing=str(error))
    result = Comparison(name, library=write())
    try:
        with replaced(decoder, attention, result):
            result.own = write()
    except Stopped as stop:
        result.problem = str(stop)
    return result


@contextmanager
def replaced(model: Decoder, attention: Attention, note: Comparison | None = None) -> Iterator[None]:
    """For a while every block of the model attends by `attention`; then all is as it was.

    note: counts the calls, and keeps the first output that differs from the library's. Raises TypeError for
    a model whose blocks have no `MultiHeadAttention`. Inside, `Stopped` tells of a function that failed.
    """
    blocks = getattr(model, "blocks", None)
    layers = [getattr(block, "attention", None) for block in blocks or ()]
    if not blocks or not all(isinstance(layer, MultiHeadAttention) for layer in layers):
        raise TypeError(
            f"expected a model with blocks that attend, such as GPT or Llama, got {type(model).__name__}."
        )
    note = Comparison("") if note is None else note
    try:
        for number, (block, layer) in enumerate(zip(blocks, layers, strict=True)):
            block.attention = _Borrowed(layer, number, attention, note)
        yield
    finally:
        for block, layer in zip(blocks, layers, strict=True):
            block.attention = layer


def parameters_of(gpt: Any) -> tuple[dict[str, Parameter], list[dict[str, Parameter]]]:
    """A GPT's parameters by their names in the unit gpt: those around the blocks, and those of each block.

    Around: tokens, gain, shift, and positions where they are learned. In a block: w_q, w_k, w_v, w_o, w_up,
    w_down, their biases b_q to b_down, and gain_1, shift_1, gain_2, shift_2 of its norms.
    """
    around = {"tokens": gpt.tokens.weight, "gain": gpt.norm.weight, "shift": gpt.norm.bias}
    if hasattr(gpt.positions, "weight"):
        around["positions"] = gpt.positions.weight
    blocks = []
    for block in gpt.blocks:
        layers = {"q": block.attention.q_proj, "k": block.attention.k_proj, "v": block.attention.v_proj}
        layers |= {"o": block.attention.out_proj, "up": block.mlp.up, "down": block.mlp.down}
        named = {f"w_{name}": layer.weight for name, layer in layers.items()}
        named |= {f"b_{name}": layer.bias for name, layer in layers.items()}
        for number, norm in ((1, block.attention_norm), (2, block.mlp_norm)):
            named |= {f"gain_{number}": norm.weight, f"shift_{number}": norm.bias}
        blocks.append(named)
    return around, blocks


def weights_of(gpt: Any) -> dict[str, Any]:
    """The numbers of `parameters_of`, those of the blocks as a list under "blocks".

    The matrices w_ are turned to (in, out), since the unit writes x @ w; minitx keeps them as (out, in).
    """
    around, blocks = parameters_of(gpt)
    turned = [
        {name: one.numpy().T if name.startswith("w_") else one.numpy() for name, one in named.items()}
        for named in blocks
    ]
    return {**{name: one.numpy() for name, one in around.items()}, "blocks": turned}


def turns_of(gpt: Any) -> np.ndarray:
    """(place, d, d) for a GPT with rotary positions, d a head's size: `vector @ turns[place]` turns one."""
    places, size = gpt.config.context, gpt.config.d_model // gpt.config.n_heads
    # Turned, the unit vectors are the rows of the matrix.
    units = np.tile(np.eye(size, dtype=gpt.tokens.weight.dtype), (places, 1, 1, 1))
    at = np.arange(places)[:, None].repeat(size, axis=1)
    with no_grad():
        return gpt.positions.rotate(Tensor(units), at).numpy()[:, 0]


class _Borrowed(MultiHeadAttention):
    """An attention layer with the parameters of another, which asks a student's function for its output."""

    def __init__(self, layer: Any, number: int, attention: Attention, note: Comparison):
        vars(self).update(vars(layer))
        self._number, self._ask, self._note = number, attention, note

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Any = None,
        causal: bool = False,
        positions: np.ndarray | None = None,
        cache: Any = None,
        layer: int = 0,
        return_weights: bool = False,
    ) -> Any:
        """As in `MultiHeadAttention`, without a context, weights and gradients."""
        if context is not None or return_weights:
            raise NotImplementedError("A borrowed attention reads its own tokens and returns no weights.")
        q = self._split(self.q_proj(x), self.n_heads)
        k = self._split(self.k_proj(x), self.n_kv_heads)
        v = self._split(self.v_proj(x), self.n_kv_heads)
        q, k, v = self._place(q, k, v, positions, cache, layer)
        if self.positions is not None:
            q, k = self.positions.extend(q, k, causal)
        scale = self.head_dim**-0.5
        right = F.attention(q, k, v, mask=mask, causal=causal, scale=scale).numpy()
        # Positions may have made queries and keys wider; a student divides by the root of what comes.
        asked = q.numpy() * q.dtype.type(scale * q.shape[-1] ** 0.5)
        got = self._answer(asked, k.numpy(), v.numpy(), _allowed(mask, causal, q.shape[2], k.shape[2]), right)
        batch, _, n, _ = right.shape
        return self.out_proj(Tensor(np.ascontiguousarray(got.transpose(0, 2, 1, 3)).reshape(batch, n, -1)))

    def _answer(self, q, k, v, mask, right) -> np.ndarray:
        """What the student's function returns for these, after a comparison with what is right."""
        self._note.calls += 1
        sizes = f"q {q.shape}, k {k.shape}, v {v.shape}, mask {mask.shape}"
        where = f"This was call {self._note.calls}, in layer {self._number}, with\n{sizes}."
        try:
            got = self._ask(q, k, v, mask)
        except Exception as error:
            raise Stopped(f"It raised {type(error).__name__}: {error}\n{where}") from error
        if isinstance(got, tuple) and len(got) == 2:
            got = got[0]
        name = "your attention's output"
        try:
            check.array(name, got, right, AXES, rtol=0, atol=RTOL * max(float(np.abs(right).max()), 1e-6))
        except AssertionError as difference:
            message = f"{difference}\n{where}"
            if np.shape(got) != right.shape or not np.isfinite(np.asarray(got, float)).all():
                raise Stopped(message) from None
            self._note.difference = self._note.difference or message
        return np.asarray(got, dtype=right.dtype)


def _allowed(mask: Any, causal: bool, n: int, m: int) -> np.ndarray:
    """One boolean mask (batch or 1, heads or 1, n, m) of what a mask and `causal` allow together."""
    allowed = np.ones((1, 1, n, m), dtype=bool)
    if causal:
        allowed &= np.arange(m) <= np.arange(n)[:, None] + (m - n)
    return allowed if mask is None else allowed & np.asarray(mask)


def _names() -> tuple[str, ...]:
    from minitx.checkpoints import KNOWN  # noqa: PLC0415 - readers of files, which a passed model needs not

    return tuple(KNOWN)


def _writer(model: str | Decoder, prompt: Any, new_tokens: int) -> tuple[Any, Callable[[], list[str]]]:
    """The decoder inside a model, and what lets it write. Raises CheckpointError."""
    if model == "driving" and prompt is None:
        return _reasoner()
    tokenizer = None
    if isinstance(model, str):
        from minitx import checkpoints  # noqa: PLC0415

        model, tokenizer = checkpoints.load(model)
    ids = _ids(PROMPT if prompt is None and tokenizer is not None else prompt, tokenizer)

    def write() -> list[str]:
        written = generate(model, ids, new_tokens, temperature=0.0)
        return [str(written) if tokenizer is None else tokenizer.decode(written)]

    return model, write


def _ids(prompt: Any, tokenizer: Any) -> list[int]:
    if isinstance(prompt, str) and tokenizer is not None:
        return tokenizer.encode(prompt)
    if prompt is None or isinstance(prompt, str):
        raise TypeError(
            f"A model without a tokenizer needs ids for a prompt, such as [3, 1, 4]; got {prompt!r}."
        )
    return list(prompt)


def _reasoner() -> tuple[Any, Callable[[], list[str]]]:
    """The GPT of the course's driver, and its reasoning about a few scenes."""
    from minitx.driving import scene  # noqa: PLC0415 - the driving world, which few callers need
    from minitx.driving.features import observe  # noqa: PLC0415
    from minitx.driving.weights import load_driver  # noqa: PLC0415

    reasoner = load_driver().reasoner
    seen = observe(scene.generate(SCENES))
    return reasoner.gpt, lambda: list(reasoner.reason(seen)[0])


def _indented(text: str) -> str:
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 96) or [""]]
    return "\n".join(f"  {line}" for line in lines)
