"""Filling a model from a file that names and shapes its tensors in its own way.

A layout is a table: for each tensor that the file must hold, its shape there and the parameters it becomes.
Everything that does not fit is found before a number is copied, and named as the file names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from minitx.errors import CheckpointError
from minitx.nn import Module, Parameter

Shape = tuple[int, ...]
Cut = Callable[[np.ndarray], np.ndarray]
AModule = TypeVar("AModule", bound=Module)


@dataclass(frozen=True)
class Entry:
    """A tensor of the file: its shape, and the parameters that it becomes, each with how it is cut out."""

    shape: Shape
    parts: dict[str, Cut]


def whole(shape: Shape, parameter: str) -> Entry:
    """A tensor that is a parameter as it stands."""
    return Entry(shape, {parameter: lambda array: array})


@dataclass(frozen=True)
class Tensors:
    """What a file holds: the shape of each tensor, and a function that reads one."""

    source: str
    shapes: Mapping[str, Shape]
    read: Callable[[str], np.ndarray]

    @property
    def size(self) -> int:
        """How many numbers there are in all."""
        return sum(int(np.prod(shape, dtype=object)) for shape in self.shapes.values())


def held(source: object, arrays: Mapping[str, np.ndarray]) -> Tensors:
    """Arrays in memory as Tensors."""
    return Tensors(str(source), {name: array.shape for name, array in arrays.items()}, arrays.__getitem__)


def build(model: Callable[..., AModule], config: Any, tensors: Tensors) -> AModule:
    """model(config) whose weights are zeros, for `fill` to replace; in evaluation mode.

    Raises CheckpointError where the configuration makes no model, or one of far more numbers than the file
    holds; for these no memory is asked for.
    """
    refuse_depth(config, tensors)
    try:
        made = model(config, rng=Blank(tensors))
    except CheckpointError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise CheckpointError(f"The configuration in {tensors.source} makes no model: {error}") from error
    made.eval()
    return made


def refuse_depth(config: Any, tensors: Tensors) -> None:
    """Raise CheckpointError where there are fewer tensors than layers, before a table of them is made."""
    if config.n_layers > len(tensors.shapes):
        raise CheckpointError(
            f"The configuration in {tensors.source} asks for {config.n_layers} layers, and there are only "
            f"{len(tensors.shapes)} tensors."
        )


class Blank(np.random.Generator):
    """Initial weights that will be overwritten: zeros, and not many more than a file holds."""

    def __init__(self, tensors: Tensors):
        super().__init__(np.random.PCG64(0))
        self._source = tensors.source
        self._left = 4 * tensors.size + 1_000_000  # a model may draw a weight more than once

    def standard_normal(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return self._zeros(size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._zeros(size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return self._zeros(size)

    def _zeros(self, size: Any) -> np.ndarray:
        shape = (size,) if isinstance(size, int | np.integer) else tuple(size or ())
        self._left -= int(np.prod(shape, dtype=object))
        if self._left < 0:
            raise CheckpointError(
                f"The configuration in {self._source} asks for a model far larger than the weights there."
            )
        return np.zeros(shape, np.float32)


def filled(
    model: Callable[..., AModule],
    config: Any,
    tensors: Tensors,
    layout: Mapping[str, Entry],
    ignored: str = r"(?!)",
) -> AModule:
    """model(config) with the weights of a file, see `fill`; nothing is built where they do not fit."""
    _refuse_misfits(getattr(model, "__name__", "this model"), tensors, layout, ignored)
    made = build(model, config, tensors)
    fill(made, tensors, layout, ignored)
    return made


def fill(model: Module, tensors: Tensors, layout: Mapping[str, Entry], ignored: str = r"(?!)") -> None:
    """Copy tensors into the parameters of `model`, as `layout` says.

    Half-precision numbers become float32; a float64 tensor makes a float64 parameter. Tensors whose whole
    name matches the pattern `ignored` are passed over.

    Raises CheckpointError naming every tensor that is missing, unexpected or of another shape, before a
    number is copied; and for a tensor that holds NaN or infinity, or no floats.
    """
    _refuse_misfits(type(model).__name__, tensors, layout, ignored)
    parameters = dict(model.named_parameters())
    for name, entry in layout.items():
        array = checked(tensors.source, name, tensors.read(name))
        for parameter, cut in entry.parts.items():
            _put(parameters[parameter], cut(array))


def _refuse_misfits(model: str, tensors: Tensors, layout: Mapping[str, Entry], ignored: str) -> None:
    """Raise CheckpointError naming every tensor that is missing, unexpected or of another shape."""
    skip = re.compile(ignored)
    problems = [
        f"missing: {name} {entry.shape}" for name, entry in layout.items() if name not in tensors.shapes
    ]
    for name, shape in tensors.shapes.items():
        if name in layout and tuple(shape) != layout[name].shape:
            problems.append(f"shape of {name}: expected {layout[name].shape}, got {tuple(shape)}")
        elif name not in layout and not skip.fullmatch(name):
            problems.append(f"unexpected: {name} {tuple(shape)}")
    if problems:
        raise CheckpointError(
            f"The weights in {tensors.source} do not fit {model}.\n  " + "\n  ".join(problems)
        )


def checked(source: str, name: str, array: np.ndarray) -> np.ndarray:
    """The array, after a look at its numbers: floats, none of them NaN or infinite."""
    if array.dtype.kind != "f":
        raise CheckpointError(f"{source}: tensor {name} holds {array.dtype}, but weights are floats.")
    # A sum is not finite where a number is not, and needs no array of booleans.
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(array.sum(dtype=np.float32 if array.itemsize < 8 else np.float64))
    if suspect and not (finite := np.isfinite(array)).all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise CheckpointError(
            f"{source}: tensor {name} holds {(~finite).sum()} values that are NaN or infinite, the first at "
            f"{where}. The training that wrote it diverged, or the file is damaged: use an earlier one."
        )
    return array


def _put(parameter: Parameter, array: np.ndarray) -> None:
    """Give a parameter its values; its dtype becomes float64 where the array's is."""
    if array.dtype == np.float64 and parameter.dtype != np.float64:
        wide = Parameter(array)
        parameter._array, parameter._storage = wide._array, wide._storage
    else:
        parameter.array_to_update()[...] = array
