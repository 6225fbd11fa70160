"""What a test cell holds in place of a student's object: calls go over, judgements do not.

Calls, attributes, items and arithmetic are forwarded to the sandbox. Equality, order, truth, hash
and conversion to an array never are: an object that could answer "am I equal to the right answer?"
would mark itself.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any, NoReturn, Protocol


class Link(Protocol):
    """What a proxy needs of a sandbox: one operation on values and handles."""

    def operate(self, operation: str, *arguments: Any) -> Any: ...

    def call(self, function: Remote, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any: ...


class StudentRaised(Exception):
    """Student code raised. Also an instance of the built-in class that it raised, where there is one."""

    def __init__(self, class_name: str, text: str) -> None:
        Exception.__init__(self, text)
        self.class_name = class_name
        self.text = text

    def __str__(self) -> str:
        return self.text


BUILT_IN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and kind is not Exception
    # A group holds exceptions, and none was sent.
    and not issubclass(kind, BaseExceptionGroup)
}


def student_raised(class_name: str, bases: list[str], text: str) -> StudentRaised:
    """The exception to raise here for one raised there, so that `pytest.raises(ValueError)` holds."""
    for base in bases:
        if base in BUILT_IN:
            return type(base, (StudentRaised, BUILT_IN[base]), {})(class_name, text)
    return StudentRaised(class_name, text)


def built_in_name(error: StudentRaised) -> str:
    """The built-in class that student code raised: a name that student code cannot choose freely."""
    for kind in type(error).__mro__:
        if BUILT_IN.get(kind.__name__) is kind:
            return kind.__name__
    return "an exception of its own"


class Remote:
    """An object in the sandbox that is neither plain data nor a numeric array."""

    __slots__ = ("_class_name", "_link", "_name", "_number")
    __array_ufunc__ = None  # array + remote goes to remote.__radd__

    def __init__(self, link: Link, number: int, class_name: str, name: str = "") -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_class_name", class_name)
        object.__setattr__(self, "_name", name)

    def __repr__(self) -> str:
        return f"<object of class {self._class_name}>"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._link.call(self, arguments, named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._link.operate("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.operate("setattr", self, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._link.operate("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._link.operate("setitem", self, key, value)

    def __len__(self) -> int:
        length = self._link.operate("len", self)
        if type(length) is not int or length < 0:
            raise TypeError(f"expected a length, got {length!r}")
        return length

    def __iter__(self) -> Iterator[Any]:
        found = self._link.operate("iter", self)
        if not isinstance(found, Remote):
            raise TypeError(f"expected an iterator, got {found!r}")
        return found

    def __next__(self) -> Any:
        return self._link.operate("next", self)

    def _refuse(self, *unused: object) -> NoReturn:
        raise TypeError(f"expected plain data or an array, got an object of class {self._class_name}")

    def __array__(self, *unused: object, **more: object) -> NoReturn:
        raise TypeError(f"expected an array, got an object of class {self._class_name}")


def _forward(operation: str, swapped: bool) -> Any:
    def method(self: Remote, *other: Any) -> Any:
        return self._link.operate(operation, *((*other, self) if swapped else (self, *other)))

    return method


JUDGEMENTS = ("eq", "ne", "lt", "le", "gt", "ge", "hash", "bool", "float", "int", "index", "contains")
for _name in JUDGEMENTS:
    setattr(Remote, f"__{_name}__", Remote._refuse)
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(Remote, f"__{_name}__", _forward(_name, swapped=False))
    setattr(Remote, f"__r{_name}__", _forward(_name, swapped=True))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Remote, f"__{_name}__", _forward(_name, swapped=False))
for _name, _operation in (("and", "and_"), ("or", "or_"), ("xor", "xor")):
    setattr(Remote, f"__{_name}__", _forward(_operation, swapped=False))
    setattr(Remote, f"__r{_name}__", _forward(_operation, swapped=True))
