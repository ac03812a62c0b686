"""What memory pressure does to a program, for notebooks.

>>> import pagewise
>>> trace = pagewise.open("pagewise.data")          # what `pagewise record` wrote
>>> trace.objects().to_pandas().head()              # a row an object, most stall first
>>> pagewise.simulate("refs.zst", ["clock", "four-area"], ["5%", "10%"]).rows.to_pandas()

Times are nanoseconds (``_ns``), sizes bytes (``_bytes``) or pages (``_pages``). What is unknown is null, never zero.
Everything runs the command line's own code, without Python's global lock; Ctrl-C ends it.
"""

from ._native import Error, RequestError, TraceError, __version__
from .planning import Plan, plan
from .simulation import Simulation, curve, policies, simulate
from .sweeping import Sweep, sweep
from .table import Table
from .trace import Trace, open

__all__ = [
    "Error",
    "Plan",
    "RequestError",
    "Simulation",
    "Sweep",
    "Table",
    "Trace",
    "TraceError",
    "__version__",
    "curve",
    "open",
    "plan",
    "policies",
    "simulate",
    "sweep",
]
