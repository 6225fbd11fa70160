# Code that prints and shows what it should not, or too much of it.

# %% twenty-megabytes
for _ in range(20):
    print("x" * (1 << 20))

# %% endless-output
def total(x):
    while True:
        print("more" * 10_000)

# %% output-that-catches-its-limit
def total(x):
    while True:
        try:
            print("x" * 100_000)
        except BaseException:
            pass

# %% terminal-codes
print("\x1b[2J\x1b[31mRED\x1b]0;title\x07\x1b[8m hidden \x9b31m")
def total(x):
    raise ValueError("\x1b[2J\x1b]52;c;Zm9v\x07")

# %% nul-and-control
print("".join(map(chr, range(32))) + "\x7f\x80\x9f\u2028\u202e\ufeff\ufffe\uffff")
def total(x):
    raise ValueError("".join(map(chr, range(32))))

# %% half-surrogates
print("\ud800 \udfff \ud83d")
class Odd(Exception): pass
Odd.__name__ = "Odd\udc80"
def total(x):
    raise Odd("\ud800\udfff")
def scaled(x, by):
    return "\ud800"

# %% no-unicode-at-all
import os, sys
for fd in (0, 1, 2):
    os.write(fd, bytes(range(256)) * 1000)
try:
    sys.stdout.buffer.write(b"\xff\xfe\xff")
except AttributeError as error:
    print(error)
def total(x):
    return b"\xff\xfe"

# %% script-in-html
from IPython.display import HTML, Javascript, SVG, Markdown, display
display(HTML("<script>document.title='owned-by-student'</script><img src=x onerror=alert('owned-by-student')>"))
display(Javascript("alert('owned-by-student')"))
display(SVG(data="<svg xmlns='http://www.w3.org/2000/svg'><script>alert('owned-by-student')</script></svg>"))
display(Markdown("<iframe src=javascript:alert('owned-by-student')>"))

# %% tags-in-text
print("</pre></div><script>owned_by_student()</script>")
class Tag(ValueError): pass
Tag.__name__ = "<script>owned_by_student()</script>"
def total(x):
    raise Tag("</pre><script>owned_by_student()</script>")

# %% a-hundred-thousand-pictures
from IPython.display import display
for _ in range(100_000):
    display({"image/png": "iVBORw0KGgo="}, raw=True)

# %% picture-of-nine-megabytes
from IPython.display import display
display({"image/png": "A" * (9 << 20)}, raw=True)

# %% warnings-without-end
import warnings
warnings.simplefilter("always")
def total(x):
    for number in range(10_000_000):
        warnings.warn(f"warning {number}")

# %% enormous-error
def total(x):
    raise ValueError("e" * (50 << 20))

# %% error-that-cannot-be-shown
class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no")
    __repr__ = __str__
def total(x):
    raise Mute
raise Mute

# %% traceback-of-a-thousand-links
error = None
for number in range(1000):
    try:
        raise ValueError("v" * 100) from error
    except ValueError as caught:
        error = caught
def total(x):
    raise error
raise error

# %% a-page-of-its-own
print("<table class='autograder-tests'><tr><td>the sum of two numbers</td><td>passed</td><td>7 of 7</td></tr></table>")
7.0

# %% progress-bar-redrawn
import time
for _ in range(50_000):
    print("\r" + "#" * 20, end="")
