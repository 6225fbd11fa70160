"""Tensor: a NumPy array that remembers how it was made, so that gradients can be computed."""

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitx.errors import DtypeError, GraphError
from minitx.graph import Node, Storage, calling_line, is_recording, root_of, run_backward
from minitx.ops import OPS

FLOAT64 = np.dtype(np.float64)
Axis = int | tuple[int, ...] | None


def to_array(value: Any, floats: np.dtype | None = None) -> np.ndarray:
    """An array of numbers: floats in the dtype `floats`, or else float64 where given as such and float32.

    Integers become `floats` too where that is given; booleans stay as they are.
    """
    if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
        raise TypeError("A list of tensors would lose their graphs. Join them with F.stack or F.concatenate.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"This list makes no array; have all its rows the same length? ({error})") from None
    if array.dtype.kind not in "fiub":
        raise DtypeError(f"Tensor needs numbers (floats, integers or booleans), got dtype {array.dtype}.")
    if floats is not None:
        return array if array.dtype.kind == "b" else array.astype(floats, copy=False)
    given_float64 = array.dtype == FLOAT64 and isinstance(value, np.ndarray | np.generic)
    if array.dtype.kind == "f" and array.dtype != np.float32 and not given_float64:
        array = array.astype(np.float32)
    return array


class Tensor:
    """An n-dimensional array of numbers with reverse-mode automatic differentiation.

    Args:
        array: numbers, copied. A float64 array stays float64, other floats become float32, integers
            and booleans stay as they are.
        requires_grad: collect gradients in `.grad` when `backward()` runs (floats only).
        copy: False shares the memory of `array`. A change to it between forward and backward is still
            found, at the price of a checksum.

    After `y.backward()`, `x.grad` is an array of x's shape and dtype for each tensor x made with
    `requires_grad=True` that y depends on; a further backward adds to it. Gradients are first order.
    """

    __slots__ = ("__weakref__", "_array", "_node", "_storage", "grad", "requires_grad")
    __array_ufunc__ = None  # array * tensor becomes Tensor.__rmul__; np.exp(tensor) raises

    def __init__(self, array: Any, requires_grad: bool = False, *, copy: bool = True):
        if isinstance(array, Tensor):
            raise TypeError(
                "Tensor got a Tensor. Use it as it is; x.detach() gives the values without their graph."
            )
        values = to_array(array)
        if copy and (values is array or values.base is not None):
            values = values.copy()
        if requires_grad and values.dtype.kind != "f":
            raise DtypeError(f"Only float tensors can require gradients, got dtype {values.dtype}.")
        self._fill(values, Storage(values, calling_line()), requires_grad)
        if not copy:
            self._storage.hand_out()

    def _fill(self, array: np.ndarray, storage: Storage, requires_grad: bool) -> None:
        self._array = array
        self._storage = storage
        self._node: Node | None = None
        self.requires_grad = requires_grad
        self.grad: np.ndarray | None = None

    @property
    def data(self) -> np.ndarray:
        """The array itself. Change it only outside a graph: before the forward pass or after backward."""
        self._storage.hand_out()
        return self._array

    @data.setter
    def data(self, value: Any) -> None:
        if value is self._array:  # x.data *= 2 ends in such an assignment
            return
        array = np.array(value, dtype=self.dtype)
        if array.shape != self.shape:
            raise ValueError(f"data must keep its shape {self.shape}, got {array.shape}. Make a new Tensor.")
        self._array, self._storage = array, Storage(array, calling_line())

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def size(self) -> int:
        return self._array.size

    @property
    def dtype(self) -> np.dtype:
        return self._array.dtype

    def numpy(self) -> np.ndarray:
        """A copy of the values, without their graph."""
        return self._array.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype=dtype)

    def item(self) -> float | int | bool:
        """The one value of a tensor with one element, as a Python number."""
        if self.size != 1:
            raise ValueError(f"item() needs a tensor with one element, got shape {self.shape}.")
        return self._array.item()

    def detach(self) -> "Tensor":
        """The same values, cut off from the graph."""
        return wrap(self._array, self._storage)

    def backward(self, gradient: Any = None) -> None:
        """Add d(self)/d(x) to `x.grad` for every x that requires gradients, and free the graph.

        gradient: d(loss)/d(self), of this tensor's shape; left out, self must have one element.
        Raises GraphError where there is no graph, where it was freed by an earlier backward, and where
        an array that it needs has been changed in place; ValueError for a wrong or missing gradient.
        """
        if not self.requires_grad:
            raise GraphError(
                "backward() on a tensor that depends on nothing with requires_grad=True. Make the inputs "
                "with Tensor(..., requires_grad=True), and keep the computation in tensors: .data, "
                ".numpy(), .detach() and no_grad() all leave the graph."
            )
        seed = self._seed(gradient)
        if self._node is None:
            self.accumulate(seed, fresh=True)
        else:
            run_backward(self._node, seed)

    def _seed(self, gradient: Any) -> np.ndarray:
        if gradient is None:
            if self.size != 1:
                raise ValueError(
                    f"backward() starts from one number, and this tensor has shape {self.shape}. Reduce it "
                    "first (loss = y.sum()), or give d(loss)/d(y): y.backward(gradient)."
                )
            return np.ones(self.shape, self.dtype)
        seed = np.array(gradient, dtype=self.dtype)
        if seed.shape != self.shape:
            raise ValueError(f"gradient must have this tensor's shape {self.shape}, got {seed.shape}.")
        return seed

    def accumulate(self, gradient: np.ndarray, fresh: bool) -> None:
        """Add to `.grad`. A fresh array belongs to no one else and needs no copy."""
        if self.grad is None:
            self.grad = gradient if fresh else gradient.copy()
        else:
            self.grad += gradient

    def retain_grad(self) -> None:
        """Collect `.grad` on this tensor too, although an operation made it."""
        if self._node is not None:
            self._node.watcher = weakref.ref(self)

    def array_to_update(self) -> np.ndarray:
        """The array, about to be changed in place by an optimiser or a loader."""
        self._storage.note_change()
        return self._array

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self.grad = None

    def __repr__(self) -> str:
        values = np.array2string(self._array, separator=", ", prefix="Tensor(")
        return f"Tensor({values}, dtype={self.dtype}{', requires_grad=True' if self.requires_grad else ''})"

    def __len__(self) -> int:
        return len(self._array)

    def __bool__(self) -> bool:
        return bool(self._array)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    __hash__ = object.__hash__

    def __iter__(self) -> Iterator["Tensor"]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> "Tensor":
        return apply("slice", self, index=_own_index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "A tensor cannot be changed in place (x[...] = value): its gradient would be wrong. Choose "
            "with F.where(condition, value, x), join pieces with F.concatenate or F.pad, or, outside a "
            "graph, write to the array: x.data[...] = value."
        )

    def __add__(self, other: Any) -> "Tensor":
        return binary("add", self, other)

    def __radd__(self, other: Any) -> "Tensor":
        return binary("add", other, self)

    def __sub__(self, other: Any) -> "Tensor":
        return binary("subtract", self, other)

    def __rsub__(self, other: Any) -> "Tensor":
        return binary("subtract", other, self)

    def __mul__(self, other: Any) -> "Tensor":
        return binary("multiply", self, other)

    def __rmul__(self, other: Any) -> "Tensor":
        return binary("multiply", other, self)

    def __truediv__(self, other: Any) -> "Tensor":
        return binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> "Tensor":
        return binary("divide", other, self)

    def __pow__(self, other: Any) -> "Tensor":
        return binary("power", self, other)

    def __rpow__(self, other: Any) -> "Tensor":
        return binary("power", other, self)

    def __matmul__(self, other: Any) -> "Tensor":
        return binary("matmul", self, other)

    def __rmatmul__(self, other: Any) -> "Tensor":
        return binary("matmul", other, self)

    def __neg__(self) -> "Tensor":
        return apply("negative", self)

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if other is None else binary("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if other is None else binary("not_equal", self, other)

    def __lt__(self, other: Any) -> "Tensor":
        return binary("less", self, other)

    def __le__(self, other: Any) -> "Tensor":
        return binary("less_equal", self, other)

    def __gt__(self, other: Any) -> "Tensor":
        return binary("greater", self, other)

    def __ge__(self, other: Any) -> "Tensor":
        return binary("greater_equal", self, other)

    def __and__(self, other: Any) -> "Tensor":
        return binary("logical_and", self, other)

    def __or__(self, other: Any) -> "Tensor":
        return binary("logical_or", self, other)

    def __invert__(self) -> "Tensor":
        return apply("logical_not", self)

    def sum(self, axis: Axis = None, keepdims: bool = False) -> "Tensor":
        """Sum over `axis`: one axis, a tuple of them, or None for all."""
        return apply("sum", self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> "Tensor":
        """Mean over `axis`: one axis, a tuple of them, or None for all."""
        return apply("mean", self, axis=axis, keepdims=keepdims)

    def var(self, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> "Tensor":
        """Variance over `axis`: the sum of squared deviations over (count - ddof), ddof 0 by default."""
        return apply("var", self, axis=axis, keepdims=keepdims, ddof=ddof)

    def max(self, axis: Axis = None, keepdims: bool = False) -> "Tensor":
        """Largest value over `axis`. Equal largest values share the gradient."""
        return apply("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> "Tensor":
        """Smallest value over `axis`. Equal smallest values share the gradient."""
        return apply("min", self, axis=axis, keepdims=keepdims)

    def exp(self) -> "Tensor":
        """e^x of each element."""
        return apply("exp", self)

    def log(self) -> "Tensor":
        """Natural logarithm of each element."""
        return apply("log", self)

    def tanh(self) -> "Tensor":
        """Hyperbolic tangent of each element."""
        return apply("tanh", self)

    def sqrt(self) -> "Tensor":
        """Square root of each element."""
        return apply("sqrt", self)

    def abs(self) -> "Tensor":
        """|x| of each element; the slope at 0 is 0."""
        return apply("abs", self)

    def clip(self, low: float | None = None, high: float | None = None) -> "Tensor":
        """Values limited to [low, high]; the gradient is 0 outside."""
        return apply("clip", self, low=low, high=high)

    def reshape(self, *shape: int | tuple[int, ...]) -> "Tensor":
        """The same elements in a new shape; one size may be -1."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return apply("reshape", self, shape=tuple(sizes))

    def permute(self, *axes: int | tuple[int, ...]) -> "Tensor":
        """The axes in a new order, every one of them named."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        return apply("permute", self, axes=tuple(order))

    def transpose(self, first: int = -2, second: int = -1) -> "Tensor":
        """Two axes exchanged, the last two by default."""
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return apply("permute", self, axes=tuple(order))

    @property
    def T(self) -> "Tensor":
        """The last two axes exchanged."""
        return self.transpose()

    def astype(self, dtype: Any) -> "Tensor":
        """The values in another dtype; gradients come back in this one."""
        return apply("astype", self, dtype=np.dtype(dtype))


def wrap(array: np.ndarray, storage: Storage) -> Tensor:
    """A tensor on memory that already has its Storage, without a copy."""
    tensor = Tensor.__new__(Tensor)
    tensor._fill(array, storage, False)
    return tensor


def as_tensor(value: Any, like: Tensor | None = None) -> Tensor:
    """A tensor as it is; numbers and arrays as constants, floats in the dtype of `like`.

    So `x * 2.0`, `x / np.sqrt(16)` and `x + array` keep the dtype of x. The array is copied only where
    a graph may keep it.
    """
    if isinstance(value, Tensor):
        return value
    array = to_array(value, like.dtype if like is not None and like.dtype.kind == "f" else None)
    if not isinstance(value, np.ndarray):
        return wrap(array, Storage(array, None))
    if is_recording() and (array is value or array.base is not None):
        array = array.copy()
    constant = wrap(array, Storage(array, calling_line()))
    if not is_recording():
        constant._storage.hand_out()
    return constant


def binary(name: str, a: Any, b: Any) -> Tensor:
    """Apply an operation of two operands, at least one of which is a tensor."""
    a = as_tensor(a, like=b if isinstance(b, Tensor) else None)
    return apply(name, a, as_tensor(b, like=a))


def apply(name: str, *inputs: Tensor | None, **options: Any) -> Tensor:
    """Carry out the operation `name` of the table, and record it where a gradient may be asked for."""
    op = OPS[name]
    arrays = tuple(None if x is None else x._array for x in inputs)
    try:
        result = op.forward(*arrays, **options)
    except (ValueError, IndexError) as error:
        shapes = ", ".join("none" if a is None else str(a.shape) for a in arrays)
        kind = ValueError if isinstance(error, ValueError) else IndexError
        raise kind(f"{name} does not fit inputs of shape {shapes}: {error}") from None
    out, kept = result if type(result) is tuple else (result, None)
    out = _settle(out, arrays)
    tensor = wrap(out, _storage_of(out, inputs))
    if is_recording() and out.dtype.kind == "f":
        differentiable = op.differentiable * len(inputs) if op.variadic else op.differentiable
        wanted = tuple(
            [x is not None and x.requires_grad and has for x, has in zip(inputs, differentiable, strict=True)]
        )
        if True in wanted:
            tensor._node = Node(op, inputs, wanted, tensor, {**options, "kept": kept})
            tensor.requires_grad = True
    return tensor


def _settle(out: Any, arrays: tuple[np.ndarray | None, ...]) -> np.ndarray:
    """float64 comes out only where float64 went in: NumPy makes it from integers and NumPy scalars too."""
    out = np.asarray(out)
    if out.dtype == FLOAT64 and FLOAT64 not in [a.dtype for a in arrays if a is not None]:
        return out.astype(np.float32)
    return out


def _storage_of(out: np.ndarray, inputs: tuple[Tensor | None, ...]) -> Storage:
    root = root_of(out)
    for x in inputs:
        if x is not None and x._storage.root is root:
            return x._storage
    return Storage(out, calling_line())


def _own_index(index: Any) -> Any:
    """An index whose arrays belong to the graph: a caller may reuse its own."""
    if isinstance(index, tuple):
        return tuple(_own_index(part) for part in index)
    if isinstance(index, Tensor):
        return index._array.copy()
    return np.array(index) if isinstance(index, np.ndarray | list) else index
