"""The commands that install llama.cpp: which index of wheels fits a machine, and when it is built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fbrag_cli.generation import build

POSIX = pytest.mark.skipif(os.name != "posix", reason="programs without a suffix")
WHEELS = "https://abetlen.github.io/llama-cpp-python/whl"


def programs(folder: Path, *names: str) -> dict[str, str]:
    """An environment whose PATH has these programs alone."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


@POSIX
@pytest.mark.parametrize(
    ("system", "machine", "driver", "index"),
    [
        ("Linux", "x86_64", None, "cpu"),
        ("Linux", "aarch64", None, "cpu"),
        ("Linux", "x86_64", "580.95.05", "cu130"),
        ("Linux", "x86_64", "550.54.15", "cu124"),
        ("Linux", "x86_64", "470.256.02", "cu118"),
        ("Linux", "x86_64", "", "cu124"),  # in WSL the driver's version is not shown
        ("Linux", "aarch64", "580.95.05", "cpu"),  # there are no wheels with CUDA for it
        ("Windows", "AMD64", None, "cpu"),
        ("Darwin", "arm64", None, "metal"),
    ],
)
def test_the_index_of_wheels_fits_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, machine: str, driver: str | None, index: str
) -> None:
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(build, "nvidia_driver", lambda: driver or None)
    environ = programs(tmp_path, *([] if driver is None else ["nvidia-smi"]))
    if driver is None and Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has an NVIDIA GPU")
    command = build.install(environ)
    assert f" --only-binary llama-cpp-python --extra-index-url {WHEELS}/{index} llama-cpp-python==" in command


def test_without_a_wheel_for_the_platform_it_needs_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    command = build.install(programs(tmp_path))
    assert command.startswith("install a C++ compiler (xcode-select --install), then ")
    assert "abetlen" not in command


@POSIX
def test_a_c_compiler_alone_is_not_enough(tmp_path: Path) -> None:
    assert not build.has_compiler(programs(tmp_path, "gcc"))
    assert build.has_compiler({**programs(tmp_path, "my-c++"), "CXX": "my-c++ -stdlib=libc++"})
    assert build.has_compiler(programs(tmp_path, "clang++"))


@POSIX
def test_the_stubs_of_macos_are_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    environ = programs(tmp_path, "cc", "c++", "xcode-select")
    assert build.has_compiler(environ)
    (tmp_path / "xcode-select").write_text("#!/bin/sh\nexit 2\n")
    assert not build.has_compiler(environ)
    assert f"{WHEELS}/metal" in build.install(environ)


@POSIX
def test_a_build_has_the_flags_and_the_variables(tmp_path: Path) -> None:
    command = build.install_for_gpu(programs(tmp_path, "cc", "c++"))
    file = Path(build.__file__).with_name("build.cmake")
    assert file.exists()
    assert command.startswith(f'CMAKE_TOOLCHAIN_FILE="{file}" CMAKE_ARGS="-DGGML_CUDA=on" ')
    assert "--no-binary llama-cpp-python" in command
    assert "--no-cache-dir" in command  # or pip would install the old build's wheel again


@POSIX
@pytest.mark.parametrize(("machine", "told"), [("x86_64", f"{WHEELS}/cu"), ("aarch64", "install a C++ compiler")])
def test_without_a_compiler_a_gpu_gets_a_wheel_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: str, told: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert told in build.install_for_gpu(programs(tmp_path))


@POSIX
@pytest.mark.parametrize(("machine", "told"), [("arm64", f"{WHEELS}/metal"), ("x86_64", "install a C++ compiler (xcode-select")])
def test_a_mac_gets_no_build_for_nvidia(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: str, told: str) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: machine)
    command = build.install_for_gpu(programs(tmp_path))
    assert told in command
    assert "CUDA" not in command
    assert f"{WHEELS}/cu" not in command


@POSIX
def test_what_is_not_installed_is_not_installed_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    again = ("--force-reinstall", "--no-deps")
    assert all(word in build.install(programs(tmp_path)) for word in again)
    monkeypatch.setattr(build, "installed", lambda: None)
    assert not any(word in build.install(programs(tmp_path)) for word in again)
    assert not any(word in build.rebuild() for word in again)
