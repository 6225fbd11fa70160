"""Module and Parameter: how layers hold what is trained."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitx.errors import DtypeError
from minitx.tensor import Tensor


class Parameter(Tensor):
    """A tensor that is trained: it requires gradients, and a Module that holds it lists it."""

    __slots__ = ()

    def __init__(self, array: Any):
        super().__init__(array.numpy() if isinstance(array, Tensor) else array, requires_grad=True)

    def change_dtype(self, dtype: Any) -> None:
        """Become float32 or float64; the gradient is forgotten."""
        fresh = Tensor(self._array.astype(dtype))
        self._array, self._storage, self.grad = fresh._array, fresh._storage, None


class Module:
    """A layer or model. Attributes that are parameters, modules, or lists, tuples or dicts of them are found.

    A subclass writes `forward`; calling the module runs it.
    """

    training = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, ...).")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.forward(*inputs, **options)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Each parameter once, with its path ("blocks.0.norm.weight"). One that is shared keeps its first."""
        seen: set[int] = set()
        for name, value in _walk("", self):
            if isinstance(value, Parameter) and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def parameters(self) -> list[Parameter]:
        """All parameters, each once."""
        return [parameter for _, parameter in self.named_parameters()]

    def modules(self) -> Iterator["Module"]:
        """This module and all inside it."""
        return (value for _, value in _walk("", self) if isinstance(value, Module))

    def train(self, mode: bool = True) -> "Module":
        """Training mode for this module and all inside it: dropout acts."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> "Module":
        """Evaluation mode: dropout passes its input on."""
        return self.train(False)

    def astype(self, dtype: Any) -> "Module":
        """Change all parameters to float32 or float64, in place; returns the module."""
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise DtypeError(f"A module is float32 or float64, got {np.dtype(dtype)}.")
        for parameter in self.parameters():
            parameter.change_dtype(dtype)
        return self

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters():
            parameter.grad = None

    def state_dict(self) -> dict[str, np.ndarray]:
        """A copy of each parameter's array, by name."""
        return {name: parameter.numpy() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Copy arrays into the parameters, or raise ValueError naming every key that does not fit.

        Nothing is changed unless everything fits.
        """
        parameters = dict(self.named_parameters())
        problems = [f"missing: {name}" for name in parameters if name not in state]
        problems += [f"unexpected: {name}" for name in state if name not in parameters]
        problems += [
            f"shape of {name}: expected {parameters[name].shape}, got {np.shape(array)}"
            for name, array in state.items()
            if name in parameters and np.shape(array) != parameters[name].shape
        ]
        if problems:
            raise ValueError("These weights do not fit this model.\n  " + "\n  ".join(problems))
        for name, parameter in parameters.items():
            parameter.array_to_update()[...] = state[name]


def _walk(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if isinstance(value, Module):
        inside: Any = vars(value).items()
    elif isinstance(value, list | tuple):
        inside = enumerate(value)
    elif isinstance(value, dict):
        inside = value.items()
    else:
        return
    for key, item in inside:
        yield from _walk(f"{name}.{key}" if name else str(key), item)
