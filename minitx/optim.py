"""Optimisers, gradient clipping and learning-rate schedules."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minitx import kernels
from minitx.memory import keep_freed_memory
from minitx.nn.module import Module, Parameter
from minitx.tensor import Tensor

Group = dict[str, Any]


class Optimizer:
    """Parameters in groups, each with its own settings; `step()` updates those that have a gradient.

    `parameters`: tensors, or dicts {"params": tensors, "lr": ..., ...} that override the settings.
    `optimizer.lr = x` sets the rate of every group, scaled as the groups were at the start.
    """

    def __init__(self, parameters: Iterable[Tensor] | Iterable[Group], **settings: Any):
        keep_freed_memory()  # what is optimised goes through the same memory again and again
        given = list(parameters)
        if not given:
            raise ValueError("The optimiser got no parameters. Pass model.parameters().")
        groups = [g for g in given if isinstance(g, dict)] or [{"params": given}]
        self.groups: list[Group] = [
            {**settings, **group, "params": list(group["params"])} for group in groups
        ]
        tensors = [p for group in self.groups for p in group["params"]]
        if len({id(p) for p in tensors}) != len(tensors):
            raise ValueError("A parameter stands in the optimiser twice: it would be updated twice a step.")
        self._base = settings["lr"]
        self._ratios = [group["lr"] / self._base if self._base else 1.0 for group in self.groups]
        self.state: dict[int, dict[str, Any]] = {id(p): {} for p in tensors}

    @property
    def lr(self) -> float:
        """The learning rate of a group without one of its own."""
        return self._base

    @lr.setter
    def lr(self, value: float) -> None:
        self._base = value
        for group, ratio in zip(self.groups, self._ratios, strict=True):
            group["lr"] = value * ratio

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for group in self.groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    array = parameter.array_to_update()
                    self._update(array, parameter.grad, self.state[id(parameter)], group)

    def _update(self, array: np.ndarray, grad: np.ndarray, state: dict[str, Any], group: Group) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _update.")


class SGD(Optimizer):
    """v <- momentum v + g;  p <- p - lr v, with g + weight_decay p in place of g where that is given."""

    def __init__(self, parameters: Any, lr: float, momentum: float = 0.0, weight_decay: float = 0.0):
        super().__init__(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)

    def _update(self, array, grad, state, group) -> None:
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * array
        if group["momentum"]:
            if "velocity" not in state:
                state["velocity"] = np.zeros_like(array)
            velocity = state["velocity"]
            velocity *= group["momentum"]
            velocity += grad
            grad = velocity
        array -= group["lr"] * grad


class Adam(Optimizer):
    """m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  p <- p - lr m' / (sqrt(v') + eps).

    m' = m / (1 - b1^t) and v' = v / (1 - b2^t) undo the start at zero (Kingma, Ba 2014,
    arXiv:1412.6980). `weight_decay` adds weight_decay p to g.
    """

    def __init__(
        self,
        parameters: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def _update(self, array, grad, state, group) -> None:
        (beta1, beta2), lr = group["betas"], group["lr"]
        self._next_step(array, state)
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * array
        mean, square = state["mean"], state["square"]
        mean *= beta1
        mean += (1 - beta1) * grad
        square *= beta2
        square += (1 - beta2) * grad * grad
        root = np.sqrt(square) / math.sqrt(1 - beta2 ** state["t"]) + group["eps"]
        array -= lr / (1 - beta1 ** state["t"]) * mean / root

    def _next_step(self, array: np.ndarray, state: dict[str, Any]) -> None:
        if not state:
            state.update(t=0, mean=np.zeros_like(array), square=np.zeros_like(array))
        state["t"] += 1


class AdamW(Adam):
    """Adam with the decay taken from the parameter itself: p <- p - lr weight_decay p, then Adam's step.

    Loshchilov, Hutter 2017, arXiv:1711.05101. One fused kernel updates parameter and moments.
    """

    def __init__(
        self,
        parameters: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        super().__init__(parameters, lr, betas, eps, weight_decay)

    def step(self) -> None:
        """One update of every parameter with a gradient; those of a group go through the kernel together."""
        for group in self.groups:
            together: dict[Any, list[tuple[np.ndarray, ...]]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    array, state = parameter.array_to_update(), self.state[id(parameter)]
                    self._next_step(array, state)
                    arrays = array, parameter.grad, state["mean"], state["square"]
                    together.setdefault((state["t"], array.dtype), []).append(arrays)
            for (t, _), rows in together.items():
                lists = (list(column) for column in zip(*rows, strict=True))
                settings = (group[name] for name in ("lr", "betas", "eps", "weight_decay"))
                kernels.family("optim").adamw_steps(*lists, *settings, t)


def decay_groups(model: Module, weight_decay: float) -> list[Group]:
    """Two groups for AdamW: matrices decay; biases and norm weights, which are vectors, do not."""
    parameters: Sequence[Parameter] = model.parameters()
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients down so that together their norm is at most `max_norm`; returns the norm before.

    Pascanu et al. 2013, arXiv:1211.5063. A norm that is not finite scales nothing.
    """
    by_dtype: dict[np.dtype, list[np.ndarray]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            by_dtype.setdefault(parameter.grad.dtype, []).append(parameter.grad)
    run = kernels.family("optim")
    norm = math.sqrt(sum(run.sum_of_squares(grads) for grads in by_dtype.values()))
    if math.isfinite(norm) and norm > max_norm:
        for grads in by_dtype.values():
            run.scale(grads, max_norm / (norm + 1e-6))
    return norm


def warmup_cosine(step: int, *, peak: float, warmup: int, total: int, floor: float = 0.0) -> float:
    """Learning rate of step 1, 2, ...: linear to `peak` at `warmup`, half a cosine to `floor` at `total`.

    Loshchilov, Hutter 2016, arXiv:1608.03983, without restarts.
    """
    if step <= warmup:
        return peak * step / warmup if warmup else peak
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))


def inverse_square_root(step: int, *, d_model: int, warmup: int = 4000) -> float:
    """Learning rate d_model^-0.5 min(step^-0.5, step warmup^-1.5) of step 1, 2, ...

    Vaswani et al. 2017, arXiv:1706.03762, section 5.3.
    """
    if step < 1:
        raise ValueError(f"The schedule starts at step 1, got {step}.")
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
