"""Right answers and wrong ones, in every state in which files come back.

Each kind is a function from a notebook (a dict, as JSON has it) to what lies in the student's folder:
names and bytes, or a function that fills the folder itself. `told` is what the student must be told where
not everything can be recovered; without it, a right answer must get full marks.
"""

from mangled import cells, files, formats, labels, names
from mangled.kind import Kind

KINDS: dict[str, Kind] = {}
for module in (files, formats, labels, cells, names):
    for one in module.KINDS:
        assert one.name not in KINDS, one.name
        KINDS[one.name] = one
