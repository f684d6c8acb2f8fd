"""The installed build: versions, commands that install llama.cpp, NVIDIA's driver. Does not load llama.cpp."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.installation import pip_install, requirement
from fbrag_cli.text.printable import one_line
from fbrag_cli.version import release, version

_PACKAGE = "llama-cpp-python"
#: llama-cpp-python's own wheels, with one index per kind of build. None of them is on PyPI.
WHEELS = "https://abetlen.github.io/llama-cpp-python/whl"
_WITH_WHEELS = {("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64"), ("Windows", "AMD64")}
_WITH_CUDA_WHEELS = ("x86_64", "AMD64")
_CUDA = ((580, "cu130"), (525, "cu124"), (0, "cu118"))  # minimum version of NVIDIA's driver -> index
_CUDA_IF_UNKNOWN = "cu124"
# Library that llama.cpp needs -> how to install it.
_SYSTEM_LIBRARIES = {
    "libgomp": "apt install libgomp1 (Debian, Ubuntu), dnf install libgomp (Fedora) or apk add libgomp (Alpine)",
    "libstdc++": "apt install libstdc++6 (Debian, Ubuntu), dnf install libstdc++ (Fedora) or apk add libstdc++ (Alpine)",
    "libvulkan": "apt install libvulkan1 (Debian, Ubuntu), dnf install vulkan-loader (Fedora)",
    "libcuda": "install the NVIDIA driver",
}
_LIBRARY = re.compile(r"\b((lib[\w+-]+?)\.so(?:\.(\d+))?[.\d]*)(?=: cannot open|: No such file)")


def versions() -> dict[str, str | None]:
    """Return the versions on which an answer depends; None for packages that are not installed."""
    return {"fbrag": version(), "llama_cpp_python": installed()}


def releases(versions: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return versions without fbrag's commit: rows of one release may be continued by another commit of it."""
    return {**versions, "fbrag": release(versions["fbrag"] or "")}


@cache
def installed() -> str | None:
    """Return the version of llama-cpp-python, None if it is not installed.

    It is read from a folder name. Loading importlib.metadata would take longer than everything else that a cached answer needs.
    """
    pattern = f"{_PACKAGE.replace('-', '_')}-*.dist-info"
    found = next((each.name for folder in sys.path for each in Path(folder).glob(pattern)), None)
    return found.removesuffix(".dist-info").rpartition("-")[2] if found else None


# -- commands that install llama.cpp ---------------------------------------------------------------------------------------


def rebuild(**variables: str) -> str:
    """Return the command that builds llama.cpp, even if it is installed. variables: environment of the build.

    Without --no-cache-dir pip would install the wheel of the last build.
    """
    again = f"--force-reinstall --no-deps --no-cache-dir --no-binary {_PACKAGE}" if installed() else ""
    command = pip_install(*filter(None, [again]), requirement(_PACKAGE))
    variables = {"CMAKE_TOOLCHAIN_FILE": str(Path(__file__).with_name("build.cmake")), **variables}
    if os.name == "nt":
        return "; ".join([*(f"$env:{name}='{value}'" for name, value in variables.items()), command])
    return " ".join([*(f'{name}="{value}"' for name, value in variables.items()), command])


def wheel(environ: Mapping[str, str], index: str | None = None) -> str:
    """Return the command that installs a wheel of llama-cpp-python, which fails at once if there is none.

    index: last part of the index URL, such as "cpu"; None for the one that fits this machine.
    """
    again = "--force-reinstall --no-deps" if installed() else ""
    options = f"--only-binary {_PACKAGE} --extra-index-url {WHEELS}/{index or wheel_index(environ)}"
    return pip_install(*filter(None, [again, options]), requirement(_PACKAGE))


def wheel_index(environ: Mapping[str, str]) -> str:
    """Return the index of wheels that fits this machine: "metal", one for NVIDIA's driver such as "cu124", or "cpu"."""
    if platform.system() == "Darwin":
        return "metal"
    return _cuda_index() if has_nvidia(environ) and platform.machine() in _WITH_CUDA_WHEELS else "cpu"


def _cuda_index() -> str:
    major = re.match(r"\d+", nvidia_driver() or "")
    return next(name for least, name in _CUDA if int(major[0]) >= least) if major else _CUDA_IF_UNKNOWN


def install(environ: Mapping[str, str], **variables: str) -> str:
    """Return the command that installs a working llama.cpp: from source, or without a compiler, from a wheel.

    variables: environment of the build.
    """
    if has_compiler(environ):
        return rebuild(**variables)
    if (platform.system(), platform.machine()) in _WITH_WHEELS:
        return wheel(environ)
    return after_compiler(rebuild(**variables))


def install_for_gpu(environ: Mapping[str, str]) -> str:
    """Return the command that installs a llama.cpp for a GPU: a Mac's by Metal, else one of NVIDIA's, even if none is seen."""
    if platform.system() == "Darwin":
        return install(environ)
    build = rebuild(CMAKE_ARGS="-DGGML_CUDA=on")
    if has_compiler(environ):
        return build
    return wheel(environ, _cuda_index()) if platform.machine() in _WITH_CUDA_WHEELS else after_compiler(build)


def after_compiler(command: str) -> str:
    """Return the instruction for a command that needs a C++ compiler, if there is none."""
    where = {"Darwin": "xcode-select --install", "Windows": "Visual Studio Build Tools"}
    return f"install a C++ compiler ({where.get(platform.system(), 'often the system package g++')}), then {command}"


def has_compiler(environ: Mapping[str, str]) -> bool:
    """Return whether this machine has a C and a C++ compiler. The build downloads CMake and Ninja itself."""
    if os.name == "nt":  # Visual Studio's is not on PATH, but its installer can find it
        studio = Path(environ.get("ProgramFiles(x86)", "C:/")) / "Microsoft Visual Studio/Installer/vswhere.exe"
        return studio.exists() or _on_path(("cl", "gcc", "clang"), environ)
    if platform.system() == "Darwin" and not _has_tools_of_xcode(environ):
        return False
    c, cpp = environ.get("CC", "").split(), environ.get("CXX", "").split()
    return _on_path((*c[:1], "cc", "gcc", "clang"), environ) and _on_path((*cpp[:1], "c++", "g++", "clang++"), environ)


def _has_tools_of_xcode(environ: Mapping[str, str]) -> bool:
    """Return whether the compilers in /usr/bin work: on macOS they are stubs until Xcode's tools are installed."""
    from subprocess import run

    xcode_select = shutil.which("xcode-select", path=environ.get("PATH", os.defpath))
    return xcode_select is not None and run([xcode_select, "--print-path"], capture_output=True, check=False).returncode == 0


def _on_path(programs: tuple[str, ...], environ: Mapping[str, str]) -> bool:
    return any(shutil.which(program, path=environ.get("PATH", os.defpath)) for program in programs)


def not_loaded(error: Exception) -> FbragError:
    """Return the error to report if llama_cpp does not load. error: from its import."""
    reason = one_line(re.sub(r"^Failed to load shared library '.*?': ", "", str(error)), 300)
    if isinstance(error, ModuleNotFoundError) and error.name == "llama_cpp":
        message = f"{_PACKAGE} is not installed (it runs models on this machine)"
    else:
        message = f"could not load {_PACKAGE}: {reason}"
    return FbragError("llama_unavailable", message, _fix(error, reason))


def _fix(error: Exception, reason: str) -> str:
    """Return the fix for a failed import of llama_cpp."""
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("llama_cpp"):
        return pip_install(error.name.partition(".")[0])
    if not (match := _LIBRARY.search(reason)) or match[2].startswith(("libllama", "libggml", "libmtmd")):
        return install(os.environ)
    file, name, major = match.groups()
    if name in ("libcudart", "libcublas", "libcublasLt"):
        return f"install CUDA {major} (for {file}), or the CPU build: {wheel(os.environ, 'cpu')}"
    return _SYSTEM_LIBRARIES.get(name) or f"install {file}, or {install(os.environ)}"


# -- NVIDIA ----------------------------------------------------------------------------------------------------------------


def has_nvidia(environ: Mapping[str, str]) -> bool:
    """Return whether this machine has an NVIDIA GPU driver."""
    return bool(shutil.which("nvidia-smi", path=environ.get("PATH"))) or Path("/proc/driver/nvidia").exists()


def nvidia_driver() -> str | None:
    """Return the version of NVIDIA's kernel driver, None if Linux does not show it."""
    try:
        match = re.search(r"Kernel Module\D*?\s([\d.]+)", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return match[1] if match else None
