"""Checks of the installation: Python, the build of llama.cpp, the devices that it finds, the instructions of the CPU."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fbrag_cli import __version__
from fbrag_cli.doctor import probe
from fbrag_cli.doctor.check import Check, Situation, Status
from fbrag_cli.generation.build import after_compiler, has_compiler, has_nvidia, install, nvidia_driver, rebuild
from fbrag_cli.generation.server.address import is_server
from fbrag_cli.installation import requirement
from fbrag_cli.text.printable import byte_size

# Instructions by llama.cpp's names -> by Linux's. Compilers that are older than a CPU leave out others, which count for less.
_SIMD = {
    **{"AVX": "avx", "AVX2": "avx2", "FMA": "fma", "AVX512": "avx512f", "AVX512_VNNI": "avx512_vnni"},
    **{"NEON": "asimd", "DOTPROD": "asimddp", "MATMUL_INT8": "i8mm", "SVE": "sve"},
}

_AVX512_GAIN = 1.8  # measured: docs/machine.md


def python() -> Check:
    """Report the versions and paths of Python and fbrag."""
    here = Path(__file__).parents[1]
    return Check("python", "ok", f"{platform.python_version()} ({sys.executable}), fbrag {__version__} ({here})")


def llama(situation: Situation) -> Iterator[Check]:
    """Check the build of llama.cpp, by the report of a child process that loads it. One check where it does not load.

    Servers as both models need no llama.cpp: then a build that does not load is a warning.
    """
    report = probe.run(probe.command("backend"), situation.environ, gpu=situation.probe_gpu, timeout=60)
    status: Status = "warn" if is_server(situation.large) and is_server(situation.small) else "fail"
    if isinstance(report, probe.Death):
        what = f"llama-cpp-python does not load: {report.what}"
        yield Check("llama.cpp", status, what, install(situation.environ))
        return
    if "error" in report:
        yield Check("llama.cpp", status, report["error"], report["hint"])
        return
    nvidia = has_nvidia(situation.environ)
    yield backend(report, situation, nvidia)
    yield devices(report, situation, nvidia)
    yield cpu(report, cpu_flags(), situation)


def backend(report: Mapping[str, Any], situation: Situation, nvidia: bool) -> Check:
    """Check that the build is of the version that fbrag needs, and can use the GPU of the machine.

    nvidia: whether the machine has an NVIDIA GPU.
    """
    version, backends, needed = report["version"], _backends(report), requirement("llama-cpp-python")
    found = f"llama-cpp-python {version}, built for {', '.join(backends)}"
    if "==" in needed and needed != f"llama-cpp-python=={version}":
        return Check("llama.cpp", "warn", f"{found}; this fbrag needs {needed}", install(situation.environ))
    if nvidia and backends == ["CPU"]:
        fix = install(situation.environ, CMAKE_ARGS="-DGGML_CUDA=on")
        return Check("llama.cpp", "warn", f"{found} alone, on a machine with an NVIDIA GPU", fix)
    return Check("llama.cpp", "ok", found)


def devices(report: Mapping[str, Any], situation: Situation, nvidia: bool) -> Check:
    """Report each device with its free memory. Warn of a build for GPUs that finds none."""
    each = [
        f"{d['name']}: {d['description']}, {byte_size(d['free_bytes'])} of {byte_size(d['total_bytes'])} free"
        for d in report["devices"]
    ]
    found = "; ".join(each) or "none"
    if not situation.probe_gpu:
        return Check("devices", "ok", f"{found}; GPUs not looked for (--no-gpu-probe)")
    driver = f"; NVIDIA driver {version}" if (version := nvidia_driver()) else ""
    built_for_gpu = _backends(report) != ["CPU"]
    if not built_for_gpu or any(device["is_gpu"] for device in report["devices"]):
        return Check("devices", "ok", found + driver)
    hidden = situation.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden in ("", "-1"):
        return Check("devices", "warn", f"{found}; CUDA_VISIBLE_DEVICES hides every GPU", "unset CUDA_VISIBLE_DEVICES")
    fix = "nvidia-smi shows whether the driver works" if nvidia else "install the GPU's driver; --gpu off needs none"
    return Check("devices", "warn", f"{found}; this build can use a GPU, and finds none{driver}", fix)


def cpu(report: Mapping[str, Any], flags: set[str], situation: Situation) -> Check:
    """Check that the build uses the vector instructions of the CPU. flags: CPU flags as Linux names them, empty where unknown."""
    used = [name for name in _SIMD if f" {name} = 1" in report["system_info"]]
    unused = [name for name, flag in _SIMD.items() if flag in flags and name not in used]
    if not used:
        return Check("cpu", "warn", "no vector instructions in use: every answer takes minutes", "use a CPU with AVX2, or a GPU")
    named = ", ".join(used)
    if unused:
        gain = f"{_AVX512_GAIN} times as fast" if "AVX512" in unused else "faster"
        finding = f"portable build ({named}): this CPU has {', '.join(unused)} too, with which prompts are read {gain}"
        build = rebuild(CMAKE_ARGS="-DGGML_NATIVE=on")
        fix = build if has_compiler(situation.environ) else after_compiler(build)
        return Check("cpu", "warn", finding, fix)
    return Check("cpu", "ok", f"built for this CPU ({named})" if flags else f"{named} in use")


def cpu_flags() -> set[str]:
    """Return the CPU flags in /proc/cpuinfo (x86 and ARM), empty without such a file."""
    try:
        found = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return set()
    return set(found[1].split()) if found else set()


def _backends(report: Mapping[str, Any]) -> list[str]:
    named = re.findall(r"(\w+) : ", report["system_info"]) + [re.sub(r"\d+$", "", d["name"]) for d in report["devices"]]
    return list(dict.fromkeys(named)) or ["CPU"]
