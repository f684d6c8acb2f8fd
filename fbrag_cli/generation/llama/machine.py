"""llama.cpp on this machine: the library and its log; devices, memory and cores; the number of layers that fit on a GPU.

If llama_cpp does not load, importing this module raises FbragError with the fix.
"""

from __future__ import annotations

import ctypes
import math
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError, lacking
from fbrag_cli.generation.build import not_loaded
from fbrag_cli.generation.placement import GPU_RESERVE, WHERE_IT_FITS, Device, Placement
from fbrag_cli.limits import allowed_cores, of_container
from fbrag_cli.text.printable import printable

try:
    import llama_cpp as llama_cpp
    import llama_cpp._ggml  # not in what an interrupted installation leaves
except (ImportError, AttributeError, OSError, RuntimeError) as error:  # llama_cpp fails in several ways
    raise lacking(error) or not_loaded(error) from error
_LIBRARY = re.compile(r"ggml-([a-z]+)")  # a backend in a file's name: libggml-cuda.so


class _Lines(threading.local):
    """The last lines of the log that a thread's own calls have written."""

    def __init__(self) -> None:
        self.last: deque[str] = deque(maxlen=40)


class NativeLog:
    """The last lines of llama.cpp's log, which explain errors, by thread: models load in parallel. verbose: whether to copy all
    lines to stderr (-vv)."""

    def __init__(self) -> None:
        self.verbose = False
        self._lines = _Lines()
        self._callback: Any = None
        self._installing = threading.Lock()

    def install(self) -> None:
        """Receive the log from now on, so that llama.cpp does not write it to stderr. The second call does nothing."""
        with self._installing:  # a callback replaced by a second thread would be freed
            if self._callback is None:
                self._callback = llama_cpp.llama_log_callback(self._receive)
                llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def clear(self) -> None:
        self._lines.last.clear()

    def last_error(self) -> str:
        """Return the first line since this thread's `clear` that reports a failure."""
        failures = [line for line in self._lines.last if "error" in line or "failed" in line]
        return (failures or ["no reason given"])[0].strip()

    def _receive(self, level: int, text: bytes, data: Any) -> None:
        line = text.decode("utf-8", "replace")
        self._lines.last.append(line)
        if self.verbose:
            print(printable(line), end="", file=sys.stderr, flush=True)


native_log = NativeLog()  # llama.cpp has one log per process


def devices() -> tuple[Device, ...]:
    """Return all devices that this build of llama.cpp finds, including CPUs."""
    return tuple(device for device, _ in _devices())


def device_list(names: Sequence[str]) -> Any:
    """Return llama.cpp's handles of the named devices, as a null-terminated array."""
    handles = {device.name: handle for device, handle in _devices()}
    return (ctypes.c_void_p * (len(names) + 1))(*(handles[name] for name in names), None)


def _devices() -> Iterator[tuple[Device, int]]:
    """Yield each device with llama.cpp's handle."""
    from llama_cpp._ggml import libggml as ggml

    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    for function in (ggml.ggml_backend_dev_name, ggml.ggml_backend_dev_description):
        function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    ggml.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    ggml.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)]
    native_log.install()  # llama.cpp logs the devices when it first looks for them
    for i in range(ggml.ggml_backend_dev_count()):
        device = ggml.ggml_backend_dev_get(i)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        name, description = (_text(ask(device)) for ask in (ggml.ggml_backend_dev_name, ggml.ggml_backend_dev_description))
        yield Device(name, description, ggml.ggml_backend_dev_type(device) in (1, 2), free.value, total.value), device


def backends() -> tuple[str, ...]:
    """Return the backends in this build of llama.cpp, such as ("CPU", "CUDA").

    llama.cpp itself does not name a backend whose driver is missing, so the libraries are read. A build of one library has none.
    """
    files = Path(llama_cpp.__file__).parent.glob("lib/*ggml-*")
    built = {found[1] for file in files if (found := _LIBRARY.search(file.name))} - {"base"}
    if built:
        return tuple(sorted(name.upper() if len(name) < 5 else name.capitalize() for name in built))
    named = re.findall(r"(\w+) : ", system_info()) + [re.sub(r"\d+$", "", device.name) for device in devices()]
    return tuple(dict.fromkeys(named)) or ("CPU",)


def gpu_backends() -> tuple[str, ...]:
    """Return the backends in this build of llama.cpp that are for GPUs."""
    return tuple(name for name in backends() if name.lower() not in ("cpu", "blas", "rpc"))


def gpus() -> tuple[Device, ...]:
    """Return the GPUs that this build of llama.cpp finds."""
    return tuple(device for device in devices() if device.is_gpu)


def free_gpu_memory(placement: Placement = WHERE_IT_FITS) -> int:
    """Return the free memory in bytes of the GPUs that may be used."""
    return sum(gpu.free_bytes for gpu in gpus() if placement.may_use(gpu))


def layers_for_gpu(path: Path, placement: Placement, n_layers: int) -> int:
    """Return the number of layers to place on GPUs, -1 for all: the number in `placement`, else all if they fit, else those that
    fit and leave `GPU_RESERVE` bytes free.
    """
    if not any(map(placement.may_use, gpus())):
        return 0
    if placement.gpu_layers is not None:
        return placement.gpu_layers
    room, size = free_gpu_memory(placement) - GPU_RESERVE, path.stat().st_size
    if size <= room:
        return -1
    return max(0, int(n_layers * room / size))


def version() -> str:
    """Return the version of llama-cpp-python."""
    return str(llama_cpp.__version__)


def amx_in_use() -> bool:
    """Return whether llama.cpp was built for AMX, whose matrix code crashes (ggml-org/llama.cpp#20824): see `repacking_helps`."""
    return "AMX_INT8 = 1" in system_info()


def repacking_helps() -> bool:
    """Return whether to load weights into llama.cpp's extra buffer types, which rearrange them for the CPU.

    False on CPUs with AVX-512, which read prompts 1.28 times as fast without, and that is most of a question's time; five samples
    are written at 0.71 of the speed (Zen 5, Q4_K, two rounds). This includes every CPU with AMX, whose matrix code
    needs these buffers and crashes (ggml-org/llama.cpp#20824).
    """
    return "AVX512 = 1" not in system_info() and not amx_in_use()


def system_info() -> str:
    """Return the instructions and backends that this build of llama.cpp uses, such as "CPU : AVX2 = 1 | ..."."""
    native_log.install()
    return _text(llama_cpp.llama_print_system_info())


def physical_cores() -> int:
    """Return the number of physical cores that this process may use."""
    import psutil

    allowed = allowed_cores()
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))


def usable_cores() -> int:
    """Return `physical_cores`, or fewer if a container limits the CPU time (docker --cpus)."""
    quota, _, period = of_container("cpu.max").partition(" ")
    limit = int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else math.inf
    return max(1, math.floor(min(physical_cores(), limit)))


def corrupt(what: str) -> FbragError:
    """Return the error for a damaged model."""
    hint = "check the file (fbrag models verify), or use another model (fbrag models list --all)"
    return FbragError("model_corrupt", what, hint)


def metadata(model: Any, key: str) -> str:
    """Return a value from the GGUF's metadata as text, "" if it is missing."""
    buffer = ctypes.create_string_buffer(256)
    n = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if n >= 0 else ""


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace").strip()
