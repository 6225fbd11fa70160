"""The flat table of operations: each name with its forward function and its derivative rules.

A family's file reads

    define("multiply", np.multiply, a=lambda grad, b: grad * b, b=lambda grad, a: grad * a)

The keyword arguments name the inputs in order. A rule turns `grad`, the gradient of the loss with
respect to the output, into the gradient with respect to that input; None marks an input that has none
(a mask, an index). A rule's parameters name what it needs, and only that is kept until `backward`:

    grad          the gradient of the output
    a, b, ...     an input, by its name
    out           the output
    kept          what the forward function returned beside the output, as (output, kept)
    shapes        the shapes of all the inputs
    wanted        for each input whether its gradient is asked for
    axis, ...     an option given to the forward function

An input that was broadcast gets a gradient of the output's shape; the engine sums it back down.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class Rule:
    """A derivative rule and the names of what it needs."""

    __slots__ = ("function", "needs")

    def __init__(self, function: Callable[..., Any]):
        code = function.__code__
        self.function = function
        self.needs: tuple[str, ...] = code.co_varnames[: code.co_argcount]

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self.function(*[values[name] for name in self.needs])


class Op:
    """One operation. With `joint`, a single rule returns the gradients of all the inputs at once."""

    __slots__ = ("_needs", "differentiable", "forward", "inputs", "joint", "name", "rules", "variadic")

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        inputs: tuple[str, ...],
        *,
        rules: tuple[Rule | None, ...] = (),
        joint: Rule | None = None,
        differentiable: tuple[bool, ...],
    ):
        self.name = name
        self.forward = forward
        self.variadic = inputs == ("*",)
        self.inputs = () if self.variadic else inputs
        self.rules = rules
        self.joint = joint
        self.differentiable = differentiable
        self._needs: dict[tuple[bool, ...], dict[str, int | None]] = {}

    def needs(self, wanted: tuple[bool, ...]) -> dict[str, int | None]:
        """What the rules of the wanted gradients need: each name, and its place where it is an input."""
        if wanted not in self._needs:
            rules = [self.joint] if self.joint else [r for r, w in zip(self.rules, wanted, strict=True) if w]
            names = [name for rule in rules if rule for name in rule.needs if name != "grad"]
            places = {name: place for place, name in enumerate(self.inputs)}
            self._needs[wanted] = {name: places.get(name) for name in names}
        return self._needs[wanted]


OPS: dict[str, Op] = {}


def define(name: str, forward: Callable[..., Any], **rules: Callable[..., Any] | None) -> None:
    """Enter an operation with one rule an input."""
    made = tuple(None if rule is None else Rule(rule) for rule in rules.values())
    has_gradient = tuple(rule is not None for rule in made)
    OPS[name] = Op(name, forward, tuple(rules), rules=made, differentiable=has_gradient)


def define_joint(name: str, forward: Callable[..., Any], inputs: str, rule: Callable[..., Any]) -> None:
    """Enter an operation whose one rule returns a tuple, a gradient an input (None where there is none).

    `inputs` names them in order, with a trailing "?" for one that has no gradient; "*" stands for any
    number of inputs, none of which is kept.
    """
    words = inputs.split()
    names = tuple(word.rstrip("?") for word in words)
    has_gradient = tuple(not word.endswith("?") for word in words)
    OPS[name] = Op(name, forward, names, joint=Rule(rule), differentiable=has_gradient)


def define_plain(name: str, forward: Callable[..., Any], inputs: str) -> None:
    """Enter an operation without gradients: comparisons and logic."""
    names = tuple(inputs.split())
    OPS[name] = Op(name, forward, names, differentiable=(False,) * len(names))


def floats(*arrays: np.ndarray | None, like: np.ndarray | None = None) -> tuple[Any, ...]:
    """The arrays in one float dtype, as the kernels want them: that of `like`, or else their own common one.

    Integers become float32.
    """
    if like is not None:
        dtype = like.dtype
    else:
        dtypes = {array.dtype for array in arrays if array is not None}
        dtype = dtypes.pop() if len(dtypes) == 1 else np.result_type(*dtypes)
        dtype = dtype if dtype.kind == "f" else np.dtype(np.float32)
    return tuple([x if x is None or x.dtype == dtype else x.astype(dtype) for x in arrays])
