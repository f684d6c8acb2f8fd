"""The checks of `fbrag doctor`: what no other command says, and a line of each thing that a report of a bug needs.

llama.cpp loads in a child process, and the models answer in one, so that a crash is a finding. Each check returns a finding, and
a fix unless its status is "ok".
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fbrag_cli.doctor import probe
from fbrag_cli.documents.ocr import engine
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import after_compiler, has_compiler, has_nvidia, install, install_for_gpu, nvidia_driver, rebuild
from fbrag_cli.generation.server.address import Address, is_local, is_server, server_key
from fbrag_cli.installation import requirement
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.models.store import ModelFile, resolve
from fbrag_cli.text.printable import byte_size
from fbrag_cli.version import version

Status = Literal["ok", "warn", "fail"]

# Vector instructions: llama.cpp's name -> Linux's. A compiler older than the CPU may not use others, which matter less.
_SIMD = {
    **{"AVX": "avx", "AVX2": "avx2", "FMA": "fma", "AVX512": "avx512f", "AVX512_VNNI": "avx512_vnni"},
    **{"NEON": "asimd", "DOTPROD": "asimddp", "MATMUL_INT8": "i8mm", "SVE": "sve"},
}
_AVX512_GAIN = 1.8  # measured: docs/install.md
_SERVER_SECONDS = 10  # within which a server must reply
_SHOWN = re.compile(
    r"FBRAG_.*|HF_.*|CUDA_VISIBLE_DEVICES|NO_COLOR|FORCE_COLOR|SSL_CERT_(FILE|DIR)|PIP_(INDEX_URL|CERT)|UV_(INDEX|INDEX_URL|DEFAULT_INDEX)|(https?|all|no)_proxy",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Check:
    """A line of `fbrag doctor`. fix: a command or an instruction, None if the status is "ok"."""

    name: str
    status: Status
    finding: str
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorInput:
    """The inputs of the checks.

    config: the configuration file in words. invalid: the error of the file, or of a variable. large, small, gpu, threads,
    key_file: the values that `ask` uses without flags. offline: whether the network must not be used. probe_gpu: whether a check
    may use the GPU driver.
    """

    environ: Mapping[str, str]
    config: str
    invalid: FbragError | None
    models_dir: Path
    large: str
    small: str
    gpu: str = "auto"
    threads: int | None = None
    key_file: str | None = None
    offline: bool = False
    probe_gpu: bool = True


def checks(situation: DoctorInput) -> Iterator[Check]:
    """Run all checks, and yield each as soon as it is done."""
    here = Path(__file__).parents[1]
    yield Check("python", "ok", f"{platform.python_version()} ({sys.executable}), fbrag {version()} ({here})")
    build = list(llama(situation))
    yield from build
    yield from models(situation, run=len(build) > 1)
    yield ocr()
    yield settings(situation)


# -- the installation --------------------------------------------------------------------------------------------------------


def llama(situation: DoctorInput) -> Iterator[Check]:
    """Check the build of llama.cpp in a child process that loads it. If it does not load, that is the only check.

    If both models are servers, llama.cpp is not needed: then a build that does not load is a warning.
    """
    report = probe.run(probe.command("backend"), situation.environ, gpu=situation.probe_gpu, timeout=60)
    status: Status = "warn" if is_server(situation.large) and is_server(situation.small) else "fail"
    if isinstance(report, probe.Death):
        what = f"could not load llama-cpp-python: {report.what}"
        yield Check("llama.cpp", status, what, install(situation.environ))
        return
    if "error" in report:
        yield Check("llama.cpp", status, report["error"], report["hint"])
        return
    nvidia = has_nvidia(situation.environ)
    yield backend(report, situation, nvidia)
    yield devices(report, situation, nvidia)
    yield cpu(report, cpu_flags(), situation)


def backend(report: Mapping[str, Any], situation: DoctorInput, nvidia: bool) -> Check:
    """Check that the build has the version that fbrag needs, and can use the machine's GPU.

    nvidia: whether the machine has an NVIDIA GPU.
    """
    version, backends, needed = report["version"], report["backends"], requirement("llama-cpp-python")
    built = f"llama-cpp-python {version}, built for {', '.join(backends)}"
    if "==" in needed and needed != f"llama-cpp-python=={version}":
        return Check("llama.cpp", "warn", f"{built}; fbrag needs {needed}", install(situation.environ))
    if nvidia and backends == ["CPU"]:
        what = f"{built} only, but this machine has an NVIDIA GPU"
        return Check("llama.cpp", "warn", what, install_for_gpu(situation.environ))
    return Check("llama.cpp", "ok", built)


def devices(report: Mapping[str, Any], situation: DoctorInput, nvidia: bool) -> Check:
    """Report each device with its free memory. Warn if a build for GPUs finds none."""
    each = [
        f"{d['name']}: {d['description']}, {byte_size(d['free_bytes'])} of {byte_size(d['total_bytes'])} free"
        for d in report["devices"]
    ]
    listing = "; ".join(each) or "none"
    if not situation.probe_gpu:
        return Check("devices", "ok", f"{listing}; GPU check skipped (--skip-gpu)")
    driver = f"; NVIDIA driver {version}" if (version := nvidia_driver()) else ""
    if report["backends"] == ["CPU"] or any(device["is_gpu"] for device in report["devices"]):
        return Check("devices", "ok", listing + driver)
    if "CUDA" in report["backends"] and situation.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return Check("devices", "warn", f"{listing}; CUDA_VISIBLE_DEVICES hides all GPUs", "unset CUDA_VISIBLE_DEVICES")
    fix = "nvidia-smi shows whether the driver works" if nvidia else "install the GPU driver, or use --gpu off"
    return Check("devices", "warn", f"{listing}; no GPU found, although llama.cpp was built with GPU support{driver}", fix)


def cpu(report: Mapping[str, Any], flags: set[str], situation: DoctorInput) -> Check:
    """Check that the build uses the CPU's vector instructions. flags: CPU flags as Linux names them, empty if unknown."""
    used = [name for name in _SIMD if f" {name} = 1" in report["system_info"]]
    unused = [name for name, flag in _SIMD.items() if flag in flags and name not in used]
    if not used:
        return Check("cpu", "warn", "no vector instructions in use: answers take minutes", "use a CPU with AVX2, or a GPU")
    named = ", ".join(used)
    if unused:
        gain = f"{_AVX512_GAIN} times as fast" if "AVX512" in unused else "faster"
        finding = f"portable build ({named} only). This CPU also has {', '.join(unused)}; a native build reads prompts {gain}"
        build = rebuild(CMAKE_ARGS="-DGGML_NATIVE=on")
        fix = build if has_compiler(situation.environ) else after_compiler(build)
        return Check("cpu", "warn", finding, fix)
    return Check("cpu", "ok", f"built for this CPU ({named})" if flags else f"{named} in use")


def cpu_flags() -> set[str]:
    """Return the CPU flags in /proc/cpuinfo (x86 and ARM), empty without such a file."""
    try:
        flags = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return set()
    return set(flags[1].split()) if flags else set()


# -- the models --------------------------------------------------------------------------------------------------------------


def models(situation: DoctorInput, *, run: bool = True) -> Iterator[Check]:
    """Let each model of the pair answer, one that is used as both only once.

    A server is only asked for its models; no text is sent to it. run: whether llama.cpp loads and can run the files.
    """
    first: Check | None = None
    for label, name in (("small model", situation.small), ("large model", situation.large)):
        if first and situation.large == situation.small:
            first = replace(first, name=label, finding="same as the small model")
        else:
            first = server(label, name, situation) if is_server(name) else model(label, name, situation, run=run)
        yield first


def server(label: str, name: str, situation: DoctorInput) -> Check:
    """Check that the server answers, and has the model."""
    from fbrag_cli.generation.server.about import about
    from fbrag_cli.generation.server.client import Endpoint, Timeouts
    from fbrag_cli.generation.server.local import look

    try:
        address = Address.parse(look(name, situation.environ).address if is_local(name) else name)
        if situation.offline and not address.is_loopback:
            return Check(label, "ok", f"{address.base}: skipped (--offline)")
        key = None if is_local(name) else server_key(situation.key_file, situation.environ)
        found = about(Endpoint(address, key, Timeouts(known=_SERVER_SECONDS)))
    except FbragError as error:
        return Check(label, "fail", error.message, error.hint)
    window = f", {found.context_tokens:,} tokens of context" if found.context_tokens else ""
    return Check(label, "ok", f"{address.base} replies: {found.model}{window}")


def model(label: str, name: str, situation: DoctorInput, *, run: bool) -> Check:
    """Check that the file exists, and that it answers if it can be run."""
    try:
        file = resolve(name, situation.models_dir, load_catalog())
    except FbragError as error:
        to_be_pulled = error.code == "model_missing" and load_catalog().find(name)
        return Check(label, "warn" if to_be_pulled else "fail", f"{error.message}; not run", error.hint)
    return answer(label, file, situation) if run else Check(label, "ok", f"{file.name}: {file.path}, not run")


def answer(label: str, file: ModelFile, situation: DoctorInput) -> Check:
    """Load the model in a child process, and make it write a few words and read a short prompt."""
    gpu = situation.probe_gpu and situation.gpu != "off"
    ask = probe.command("model", str(file.path.absolute()), "auto" if gpu else "0", str(situation.threads or 0))
    report = probe.run(ask, situation.environ, gpu=gpu)
    if isinstance(report, probe.Death):
        what = f"{file.name}: the process that ran it died: {report.what}"
        return Check(label, "fail", what, _fix_of_death(report, situation, gpu=gpu))
    if "error" in report:
        return Check(label, "fail", report["error"], report["hint"])
    finding = (
        f"{file.name}: loaded in {report['load_seconds']:.1f} s, answered in {report['answer_seconds']:.1f} s, "
        f"{report['gpu_layers']} layers on the GPU"
    )
    if not report["generated_tokens"]:
        return Check(label, "warn", f"{finding}, but produced no output", "use a chat (Instruct) model")
    return Check(label, "ok", f"{finding}; reads {report['reads']:,.0f} tokens/s, writes {report['writes']:,.0f}")


def _fix_of_death(death: probe.Death, situation: DoctorInput, *, gpu: bool) -> str:
    if death.cause == "timeout":
        return "run fbrag doctor again when the machine is idle, or use a smaller model"
    if death.cause == "SIGKILL":
        return "probably out of memory: close other programs, or use a smaller model (fbrag models list --all)"
    if death.cause == "SIGABRT":  # one of llama.cpp's own assertions failed
        return "check the file (fbrag models verify), or use another model (fbrag models list --all)"
    if death.cause == "SIGILL":  # the build uses instructions that this CPU lacks
        return install(situation.environ, CMAKE_ARGS="-DGGML_NATIVE=on")
    if death.cause and gpu:
        return f"check without the GPU (fbrag doctor --skip-gpu), or {install(situation.environ)}"
    return install(situation.environ)


def ocr() -> Check:
    """Say which engine reads scans and pictures, and which scripts, or how to install it. No command needs it."""
    if engine.is_installed():
        return Check("ocr", "ok", f"{engine.version()}, reads {', '.join(engine.SCRIPTS)}")
    return Check("ocr", "ok", f"not installed, scans and pictures are not read: {engine.how_to_install()}")


def settings(situation: DoctorInput) -> Check:
    """Report the configuration file and the environment variables, of which only names are shown: a value may be secret."""
    variables = " ".join(sorted(filter(_SHOWN.fullmatch, situation.environ))) or "no variables set"
    finding = f"{situation.config}; {variables}"
    if error := situation.invalid:
        return Check("settings", "fail", f"{error.message} ({finding})", error.hint)
    return Check("settings", "ok", finding)
