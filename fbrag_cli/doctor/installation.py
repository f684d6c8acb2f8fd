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
from fbrag_cli.doctor.check import Check, Situation
from fbrag_cli.generation.build import has_nvidia, nvidia_driver, rebuild
from fbrag_cli.text.printable import byte_size

_SIMD = ("AVX", "AVX2", "AVX512", "NEON", "SVE")


def python() -> Check:
    """Report the versions and paths of Python and fbrag."""
    here = Path(__file__).parents[1]
    return Check("python", "ok", f"{platform.python_version()} ({sys.executable}), fbrag {__version__} ({here})")


def llama(situation: Situation) -> Iterator[Check]:
    """Check the build of llama.cpp, by the report of a child process that loads it."""
    report = probe.run(probe.command("backend"), situation.environ, gpu=situation.probe_gpu, timeout=60)
    if isinstance(report, probe.Death):
        yield Check("llama.cpp", "fail", f"llama-cpp-python does not load: {report.what}", rebuild())
        return
    nvidia = has_nvidia(situation.environ)
    yield backend(report, nvidia)
    yield devices(report, situation, nvidia)
    yield cpu(report, cpu_flags())
    yield amx(report)


def backend(report: Mapping[str, Any], nvidia: bool) -> Check:
    """Check that the build can use the GPU of the machine. nvidia: whether it has an NVIDIA GPU."""
    version, backends = report["version"], _backends(report)
    found = f"llama-cpp-python {version}, built for {', '.join(backends)}"
    if nvidia and backends == ["CPU"]:
        fix = rebuild(CMAKE_ARGS="-DGGML_CUDA=on")
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


def cpu(report: Mapping[str, Any], flags: set[str]) -> Check:
    """Check that the build uses the vector instructions of the CPU. flags: CPU flags as Linux names them, empty where unknown."""
    used = [name for name in _SIMD if f" {name} = 1" in report["system_info"]]
    unused = [name for name, flag in (("AVX2", "avx2"), ("AVX512", "avx512f")) if flag in flags and name not in used]
    if unused:
        finding = f"the CPU has {' and '.join(unused)}, and this build does not use it: both models are slower than they could be"
        return Check("cpu", "warn", finding, rebuild(CMAKE_ARGS="-DGGML_NATIVE=on"))
    if not used:
        return Check("cpu", "warn", "no vector instructions in use: every answer takes minutes", "use a CPU with AVX2, or a GPU")
    return Check("cpu", "ok", f"{used[-1]} in use" + ("" if len(used) == 1 else f" (also {', '.join(used[:-1])})"))


def amx(report: Mapping[str, Any]) -> Check:
    """Report whether the build has llama.cpp's code for AMX, which fbrag avoids."""
    if not report["amx"]:
        return Check("amx", "ok", "not in this build of llama.cpp")
    return Check(
        "amx", "ok", "in this build of llama.cpp, whose code for it crashes (ggml-org/llama.cpp#20824): fbrag goes without"
    )


def cpu_flags() -> set[str]:
    """Return the CPU flags in /proc/cpuinfo, empty without such a file."""
    try:
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return set()
    return set(found[1].split()) if found else set()


def _backends(report: Mapping[str, Any]) -> list[str]:
    named = re.findall(r"(\w+) : ", report["system_info"]) + [re.sub(r"\d+$", "", d["name"]) for d in report["devices"]]
    return list(dict.fromkeys(named)) or ["CPU"]
