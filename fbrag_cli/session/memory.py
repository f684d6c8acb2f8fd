"""Peak main memory of this process."""

from __future__ import annotations

import sys


def peak_memory_mb() -> float:
    """Return the peak of main memory so far, in MB (10^6 bytes)."""
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return float(getattr(psutil.Process().memory_info(), "peak_wset", 0) / 1e6)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
