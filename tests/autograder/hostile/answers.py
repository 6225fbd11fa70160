# Answers that lie about themselves.

# %% equal-to-everything
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __bool__(self): return True
    def __hash__(self): return 0
def total(x): return Equal()
def scaled(x, by): return Equal()

# %% array-of-anything
class Array:
    shape, dtype, ndim, size = (3,), float, 1, 3
    def __array__(self, *arguments, **more):
        import numpy as np
        return np.zeros(3)
    def __array_function__(self, *arguments): return True
    def __array_ufunc__(self, *arguments, **more): return True
    def __array_priority__(self): return 1e9
def total(x): return Array()
def scaled(x, by): return Array()

# %% array-subclass
import numpy as np
class Sly(np.ndarray):
    def __eq__(self, other): return np.True_
    def __array_function__(self, function, types, arguments, more): return True
    def __array_ufunc__(self, *arguments, **more): return np.True_
    def tolist(self): return [2.0, -4.0, 8.0]
def total(x): return np.zeros(()).view(Sly)
def scaled(x, by): return np.zeros(3).view(Sly)

# %% number-subclasses
class Float(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = float.__hash__
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
class Text(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def total(x): return Float(1)
def scaled(x, by): return Text("x")

# %% lying-class
import numpy as np
class Liar:
    @property
    def __class__(self): return np.ndarray
    def __instancecheck__(self, other): return True
    def __eq__(self, other): return True
def total(x): return Liar()
def scaled(x, by): return Liar()

# %% lying-metaclass
class Meta(type):
    def __instancecheck__(cls, other): return True
    def __subclasscheck__(cls, other): return True
    def __eq__(cls, other): return True
    def __hash__(cls): return 1
    def __getattr__(cls, name): return cls
    def __call__(cls, *arguments, **more): return cls
class Answer(metaclass=Meta): pass
def total(x): return Answer
def scaled(x, by): return Answer

# %% reduces-to-a-call
class Bomb:
    def __reduce__(self):
        import os
        return os.system, ("touch @OUTSIDE@/reduced",)
    def __reduce_ex__(self, protocol): return self.__reduce__()
    def __deepcopy__(self, memo): return self.__reduce__()
    def __getstate__(self): return self.__reduce__()
def total(x): return Bomb()
def scaled(x, by): return [Bomb(), {"a": Bomb()}]

# %% endless-length
class Long:
    def __len__(self): return 1 << 62
    def __iter__(self): return iter(int, 1)
    def __getitem__(self, key): return 0.0
    def __contains__(self, item): return True
def total(x): return Long()
def scaled(x, by): return Long()

# %% negative-length
class Short:
    def __len__(self): return -1
    def __index__(self): return 1 << 70
    def __float__(self): return -1.0
    def __int__(self): return -1
def total(x): return Short()
def scaled(x, by): return Short()

# %% every-attribute
class Every:
    def __getattr__(self, name): return Every()
    def __call__(self, *arguments, **more): return Every()
    def __getitem__(self, key): return Every()
    def __add__(self, other): return Every()
    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__
def total(x): return Every()
def scaled(x, by): return Every()

# %% attributes-without-end
class Deep:
    def __getattribute__(self, name): return getattr(self, name)
def total(x): return Deep()

# %% arithmetic-that-returns-the-other
class Echo:
    __array_ufunc__ = None
    def __sub__(self, other): return other - other
    def __rsub__(self, other): return other - other
    def __radd__(self, other): return other
    def __rmul__(self, other): return other
def total(x): return Echo()
def scaled(x, by): return Echo()

# %% not-a-number
def total(x): return float("nan")
def scaled(x, by): return x * float("nan")

# %% objects-in-an-array
import numpy as np
class Equal:
    def __eq__(self, other): return True
def total(x): return np.array([Equal()], dtype=object)
def scaled(x, by): return np.array([Equal()] * 3, dtype=object)

# %% masked-everywhere
import numpy as np
def total(x): return np.ma.masked
def scaled(x, by): return np.ma.masked_all(3)

# %% record-array
import numpy as np
def total(x): return np.zeros(1, dtype=[("a", "f8"), ("b", "O")])[0]
def scaled(x, by): return np.datetime64("2026-01-01")

# %% too-large-to-send
import numpy as np
def total(x): return np.zeros(70 << 20, dtype=np.uint8)
def scaled(x, by): return [0] * 3_000_000

# %% large-every-time
import numpy as np
def total(x): return np.zeros(30 << 20, dtype=np.uint8)

# %% colliding-numbers
def total(x): return {k * (2 ** 61 - 1): 0 for k in range(9_000)}
def scaled(x, by): return {k * (2 ** 61 - 1) for k in range(9_000)}

# %% changes-its-arguments
def total(x):
    x[...] = 0
    return x
def scaled(x, by):
    x[...] = 0
    return x

# %% a-different-kind-each-time
calls = []
def total(x):
    calls.append(1)
    return [None, True, "3.0", b"3", ..., slice(3), 3j, {}, (), frozenset(), type, total][len(calls) % 12]
scaled = lambda x, by: total(x)

# %% raises-what-tests-catch
def total(x): raise AssertionError("passed")
def scaled(x, by): raise StopIteration

# %% raises-what-ends-programs
def total(x): raise SystemExit(0)
def scaled(x, by): raise KeyboardInterrupt

# %% raises-a-group
def total(x): raise ExceptionGroup("many", [ValueError(1), BaseExceptionGroup("base", [KeyboardInterrupt()])])
def scaled(x, by): raise BaseExceptionGroup("base", [GeneratorExit()])

# %% raises-a-class-with-every-base
class Everything(UnicodeDecodeError, ArithmeticError):
    def __init__(self): pass
    def __str__(self): return "s"
def total(x): raise Everything
def scaled(x, by): raise OSError(2, "no", "file")

# %% recursive-containers
def total(x):
    loop = []
    loop.append(loop)
    return loop
def scaled(x, by):
    loop = {}
    loop["self"] = loop
    return loop

# %% overflow-and-casts
import numpy as np
def total(x): return np.longdouble("1e4000")
def scaled(x, by): return np.array([1, 2, 3], dtype=">u2")

# %% functions-deleted
del_names = [name for name in list(globals()) if not name.startswith("_")]
for name in del_names:
    globals().pop(name, None)

# %% empty-list
def total(x): return []
def scaled(x, by): return []

# %% empty-array
import numpy as np
def total(x): return np.zeros((0, 3))
def scaled(x, by): return np.zeros((0, 3))
