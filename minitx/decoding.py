"""One token of every row through a whole model in one compiled call: the door to the kernels of `decoder`.

step = compile_step(model)              # packs the weights
model(prompt, cache=cache)              # the prompt by the plain path
logits = step(ids, cache)               # (B, vocab_size), and the cache is one position longer
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from minitx import kernels
from minitx.cache import KVCache
from minitx.errors import DtypeError, shape_error
from minitx.graph import Storage
from minitx.kernels import rope_numpy
from minitx.kernels.decoder_numpy import (
    GELU,
    GELU_TANH,
    HALF,
    INTERLEAVED,
    RELU,
    STRAIGHT,
    SWIGLU,
    Layer,
    Shape,
    Weights,
)
from minitx.models import GPT, Decoder, Llama
from minitx.nn import (
    MLP,
    ALiBi,
    Block,
    Embedding,
    LayerNorm,
    LearnedPositions,
    Linear,
    Module,
    MultiHeadAttention,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
    SwiGLU,
)
from minitx.tensor import Tensor

ACTIVATIONS = {"relu": RELU, "gelu_tanh": GELU_TANH, "gelu": GELU}
KNOWN = (
    *(Block, MultiHeadAttention, Linear, Embedding, MLP, SwiGLU, LayerNorm, RMSNorm),
    *(LearnedPositions, SinusoidalPositions, RotaryPositions, ALiBi),
)


def compile_step(
    model: Decoder, *, weights: Literal["float32", "float64", "int8"] | None = None
) -> CompiledStep:
    """-> a `CompiledStep`, which computes what `model(ids[:, None], cache=cache)` does in evaluation mode.

    Args:
        model: a GPT or a Llama whose layers are minitx's own.
        weights: "int8" rounds the matrices to 8 bits with a factor for every 64 of a row's weights, which
            takes a quarter of the memory and of the reading. By default they stay as the model's are.

    The weights are copied. Raises TypeError for another kind of model or layer, DtypeError where the
    parameters' dtypes differ from each other or from `weights`, and ValueError for an unknown `weights`,
    for norms whose eps differ, and for int8 weights that are not finite.
    """
    return CompiledStep(model, weights)


class CompiledStep:
    """step(ids, cache) -> logits. See `compile_step`.

    Before each call it looks whether a parameter has been changed by an optimiser, a loader, `astype` or
    `.data` since the weights were copied, and copies them again if so. Two changes need a call of
    `refresh()`: one through an array that `.data` handed out earlier, and a layer that was replaced.

    Several Python threads may use one step, each with a cache of its own; so may a forked child.
    """

    def __init__(self, model: Decoder, weights: str | None = None):
        if weights not in (None, "float32", "float64", "int8"):
            raise ValueError(f'weights must be "float32", "float64" or "int8", got {weights!r}.')
        self.model, self.weights = model, weights
        self.refresh()

    @property
    def packed(self) -> Any:
        """The weights as the kernels in use read them."""
        return self._state[1]

    def refresh(self) -> None:
        """Copy the model's weights again."""
        model = self.model
        _check_model(model)
        dtype = _check_dtypes(model, self.weights)
        # Noted before the copy is made: a change in between is then seen, not missed.
        self._latest = Storage.latest
        seen = [(p, p._storage, p._storage.version, p._storage.changed_at) for p in model.parameters()]
        shape, family = _shape_of(model), kernels.family("decoder")
        packed = family.pack(shape, _weights_of(model, shape, dtype), self.weights == "int8")
        self._state = (family, packed, seen, shape, dtype)

    def __call__(self, ids: Any, cache: KVCache) -> np.ndarray:
        """Logits (B, vocab_size) of the token after ids (B,), the next token of each row of `cache`.

        The ids are appended to the cache. Raises ValueError for a wrong shape, for a cache that is full, has
        a window or is another model's, and for a sequence longer than config.context; DtypeError for ids
        that are not integers or a cache of another dtype; IndexError for an id outside the vocabulary. The
        cache is then as it was.
        """
        if self._is_stale():
            self.refresh()
        family, packed, _, shape, dtype = self._state
        numbers = _check_ids(ids, shape.vocab_size)
        lengths = _check_cache(cache, numbers.size, shape, dtype)
        logits = family.step(packed, numbers, cache.keys, cache.values, lengths)
        cache.advance(1)
        return logits

    def _is_stale(self) -> bool:
        family, _, seen, _, _ = self._state
        if family is not kernels.family("decoder"):
            return True
        latest = Storage.latest
        if latest == self._latest:
            return False
        for parameter, storage, version, changed_at in seen:
            now = parameter._storage
            if now is not storage or now.version != version or now.changed_at is not changed_at:
                return True
        self._latest = latest
        return False


def _check_model(model: Decoder) -> None:
    """Raise TypeError where the kernels would compute something else than the model does."""
    if type(model) not in (GPT, Llama):
        raise TypeError(
            f"compile_step takes a GPT or a Llama, got {type(model).__name__}. Call the model itself: "
            "model(ids[:, None], cache=cache)."
        )
    for module in _parts(model):
        if type(module) not in KNOWN or "forward" in vars(module):
            raise TypeError(
                f"compile_step knows minitx's own layers, and this model has a {type(module).__name__} of "
                "another kind. Call the model itself: model(ids[:, None], cache=cache)."
            )
    forms = [_form_of(block, model) if isinstance(block, Block) else None for block in model.blocks]
    if len(set(forms)) != 1 or forms[0] is None or not all(forms[0][:5]):
        raise TypeError(
            "compile_step takes pre-norm causal blocks of one kind and size, and these blocks differ. Call "
            "the model itself: model(ids[:, None], cache=cache)."
        )
    norms = [module for module in _parts(model) if isinstance(module, LayerNorm | RMSNorm)]
    if len({norm.eps for norm in norms}) > 1:
        raise ValueError(
            f"compile_step needs one eps for all norms, got {sorted({norm.eps for norm in norms})}."
        )


def _form_of(block: Block, model: Decoder) -> tuple[Any, ...]:
    """What all blocks must have in common; the first five are to be true."""
    attention, mlp = block.attention, block.mlp
    turn = attention.positions
    return (
        block.pre,
        block.causal,
        block.cross_attention is None,
        turn is (model.positions if model.positions.movable else None),
        type(block.attention_norm) is type(block.mlp_norm) is type(model.norm),
        (attention.d_model, attention.n_heads, attention.n_kv_heads, attention.head_dim),
        type(mlp),
        getattr(mlp, "activation", None),
        mlp.down.weight.shape,
    )


def _parts(model: Decoder) -> Iterator[Module]:
    """All modules inside, but dropout: it passes its input on in evaluation mode."""
    inside = iter(model.modules())
    next(inside)
    return (module for module in inside if type(module).__name__ != "Dropout")


def _check_dtypes(model: Decoder, weights: str | None) -> np.dtype:
    dtype = model.tokens.weight.dtype
    for name, parameter in model.named_parameters():
        if parameter.dtype != dtype:
            raise DtypeError(
                f"All parameters must have one dtype: tokens.weight is {dtype}, {name} {parameter.dtype}. "
                "model.astype(dtype) changes them all."
            )
        if weights == "int8" and not np.isfinite(parameter._array).all():
            raise ValueError(f"int8 weights need finite numbers, and {name} has a NaN or an infinity.")
    if weights in ("float32", "float64") and dtype != weights:
        raise DtypeError(f"The model is {dtype}, not {weights}: model.astype({weights!r}) changes it.")
    return dtype


def _shape_of(model: Any) -> Shape:
    block, config = model.blocks[0], model.config
    attention, mlp, turn = block.attention, block.mlp, block.attention.positions
    rotary = STRAIGHT
    if isinstance(turn, RotaryPositions):
        rotary = HALF if turn.layout == "half" else INTERLEAVED
    return Shape(
        len(model.blocks),
        attention.d_model,
        attention.n_heads,
        attention.n_kv_heads,
        attention.head_dim,
        mlp.down.weight.shape[1],
        model.tokens.weight.shape[0],
        config.context,
        isinstance(block.attention_norm, LayerNorm),
        SWIGLU if isinstance(mlp, SwiGLU) else ACTIVATIONS[mlp.activation],
        rotary,
    )


def _weights_of(model: Any, shape: Shape, dtype: np.dtype) -> Weights:
    """The model's arrays under the kernels' names; layers one by one, since they are joined copies."""
    at_input, turn = model.positions, model.blocks[0].attention.positions
    table = angles = slopes = None
    if isinstance(at_input, LearnedPositions):
        table = at_input.weight._array
    elif isinstance(at_input, SinusoidalPositions):
        table = at_input.table(np.arange(shape.context)).astype(dtype)
    if isinstance(turn, RotaryPositions):
        angles = rope_numpy.table(shape.context, turn.head_dim, turn.base, dtype)
    elif isinstance(turn, ALiBi):
        slopes = turn.slopes.astype(dtype)
    head = getattr(model, "head", None)
    return Weights(
        model.tokens.weight._array,
        (_layer_of(block) for block in model.blocks),
        model.norm.weight._array,
        _array_of(getattr(model.norm, "bias", None)),
        None if head is None else head.weight._array,
        table,
        angles,
        slopes,
        model.norm.eps,
    )


def _layer_of(block: Block) -> Layer:
    attention, mlp = block.attention, block.mlp
    projections = [attention.q_proj, attention.k_proj, attention.v_proj]
    first = [mlp.gate, mlp.up] if isinstance(mlp, SwiGLU) else [mlp.up]
    return Layer(
        *_pair(block.attention_norm),
        *_joined(projections),
        *_pair(attention.out_proj),
        *_pair(block.mlp_norm),
        *_joined(first),
        *_pair(mlp.down),
    )


def _array_of(parameter: Tensor | None) -> np.ndarray | None:
    return None if parameter is None else parameter._array


def _pair(layer: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The weight, and the bias if there is one."""
    return layer.weight._array, _array_of(getattr(layer, "bias", None))


def _joined(layers: list[Linear]) -> tuple[np.ndarray, np.ndarray | None]:
    """Weights and biases of several layers, one below the other."""
    weights, biases = zip(*(_pair(layer) for layer in layers), strict=True)
    if all(bias is None for bias in biases):
        return np.concatenate(weights), None
    filled = [
        np.zeros(len(weight), weight.dtype) if bias is None else bias
        for weight, bias in zip(weights, biases, strict=True)
    ]
    return np.concatenate(weights), np.concatenate(filled)


def _check_ids(ids: Any, vocab_size: int) -> np.ndarray:
    """ids (B,) as int64, all of them in the vocabulary."""
    array = np.asarray(ids._array if isinstance(ids, Tensor) else ids)
    if array.ndim != 1 or not array.size:
        hint = "The last token of each row is ids[:, -1]." if array.ndim == 2 else ""
        raise shape_error("ids", "(B,), one token a row,", array.shape, hint)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"ids must be integers, got {array.dtype}.")
    for row, number in enumerate(array.tolist()):
        if not 0 <= number < vocab_size:
            raise IndexError(f"ids must lie in 0 ... {vocab_size - 1}, got {number} in row {row}.")
    if array.dtype == np.int64 and array.flags.carray:
        return array
    return np.require(array, np.int64, ("C", "A", "W"))


def _check_cache(cache: KVCache, batch: int, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """The rows' lengths, once one more position is known to fit into each."""
    if not isinstance(cache, KVCache):
        raise TypeError(f"cache must be a KVCache, got {type(cache).__name__}: model.new_cache(batch).")
    keys, values = cache.keys, cache.values
    expected = (shape.n_layers, batch, shape.n_kv_heads, shape.head_dim)
    got = (*keys.shape[:3], keys.shape[4])
    if got != expected or values.shape != keys.shape:
        raise ValueError(
            "This cache does not fit: (n_layers, batch, n_kv_heads, head_dim) must be "
            f"{expected}, got {got}. model.new_cache(batch) makes one that does."
        )
    if keys.dtype != dtype or values.dtype != dtype:
        raise DtypeError(f"cache must be {dtype}, that of the model, got {keys.dtype}.")
    if cache.window is not None:
        raise ValueError(
            "A compiled step does not read a cache with a window. Call the model itself: "
            "model(ids[:, None], cache=cache)."
        )
    if not (keys.flags.carray and values.flags.carray):
        raise ValueError(
            "A compiled step writes to a cache whose arrays are whole and writeable, not to a part of one "
            "such as cache.row(b). cache.fork([b]) makes one of its own."
        )
    lengths = cache.lengths
    longest = max(lengths.tolist())
    if longest >= keys.shape[3]:
        cache.check_room(1)
    if longest >= shape.context:
        raise ValueError(
            f"A sequence of {longest + 1} tokens is longer than the context of this model, {shape.context}."
        )
    return lengths
