"""`fbrag doctor`: what it finds on this machine, and what it makes of things that are broken."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.doctor import checks, probe
from fbrag_cli.doctor.checks import Check, DoctorInput
from fbrag_cli.generation.build import install_for_gpu
from fbrag_cli.models.store import ModelFile
from tests.conftest import Run

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals")
SMALL = {"FBRAG_LARGE": "smollm2-135m", "FBRAG_SMALL": "smollm2-135m"}


@pytest.fixture
def situation(tmp_path: Path) -> DoctorInput:
    return DoctorInput(
        environ={"PATH": os.environ["PATH"]},
        config="no configuration file",
        invalid=None,
        models_dir=tmp_path / "models",
        large="smollm2-135m",
        small="smollm2-135m",
    )


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# -- the command -----------------------------------------------------------------------------------------------------------


def test_a_model_that_works(fbrag: Run, smollm2: Path) -> None:
    done = fbrag("doctor", "--json", "--offline", env={**SMALL, "FBRAG_MODELS_DIR": str(smollm2.parent)})
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr, told["schema"]) == (0, "", "fbrag.doctor/1")
    checks = {check["name"]: check for check in told["checks"]}
    assert list(checks) == ["python", "llama.cpp", "devices", "cpu", "small model", "large model", "ocr", "settings"]
    assert all((check["fix"] is None) == (check["status"] == "ok") for check in checks.values())
    installed = f"rapidocr {version('rapidocr')}, reads Latin, Han" if find_spec("rapidocr") else "not installed, scans and"
    assert checks["ocr"]["finding"].startswith(installed)
    assert "layers on the GPU" in checks["small model"]["finding"]
    assert checks["large model"]["finding"] == "same as the small model"


def test_lines_for_people(fbrag: Run, tmp_path: Path) -> None:
    done = fbrag("doctor", "--offline", "--skip-gpu", env={**SMALL, "FBRAG_MODELS_DIR": str(tmp_path / "none")})
    assert done.returncode == 0  # a model that has not been fetched yet is no failure
    lines = done.stdout.splitlines()
    assert all(line.split()[0] in ("ok", "warn", "fix:") for line in lines)
    at = next(i for i, line in enumerate(lines) if line.startswith("warn  small model "))
    assert lines[at + 1] == "      fix: fbrag models pull smollm2-135m"
    assert "\x1b" not in done.stdout
    colored = fbrag("doctor", "--offline", "--color", "always", env={**SMALL, "FBRAG_MODELS_DIR": str(tmp_path / "none")})
    assert colored.stdout.replace("\x1b[1m", "").replace("\x1b[0m", "").startswith("ok    python ")


def test_broken_things_are_findings_and_exit_1(fbrag: Run, smollm2: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(smollm2.read_bytes()[:1_000_000])
    config = tmp_path / "broken.toml"
    config.write_text("gpu = \n")
    env = {"FBRAG_SMALL": str(cut), "FBRAG_LARGE": "qwen2.5-coder-15b", "FBRAG_THREADS": "many", "HF_TOKEN": "hf_secret"}
    done = fbrag("doctor", "--offline", "--json", "--config", config, env=env)
    assert done.returncode == 1
    assert "hf_secret" not in done.stdout
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert {name for name, check in checks.items() if check["status"] == "fail"} == {"small model", "large model", "settings"}
    assert "could not read the header of cut.gguf" in checks["small model"]["finding"]
    assert "qwen2.5-coder-1.5b" in checks["large model"]["fix"]
    assert f"{config}, line 1" in checks["settings"]["finding"]
    assert "HF_TOKEN" in checks["settings"]["finding"]
    told = json.loads(fbrag("doctor", "--offline", "--json", env=env).stdout)["checks"][-1]
    assert told["finding"].startswith('FBRAG_THREADS is "many"')


# -- crashes ---------------------------------------------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize(("name", "fix"), [("SIGSEGV", "--skip-gpu"), ("SIGILL", "GGML_NATIVE"), ("SIGKILL", "out of memory")])
def test_a_model_that_kills_its_process(situation: DoctorInput, monkeypatch: pytest.MonkeyPatch, name: str, fix: str) -> None:
    crash = child(f"import os, signal; print('loading', flush=True); os.kill(os.getpid(), signal.{name})")
    monkeypatch.setattr(probe, "command", lambda *arguments: crash)
    found = checks.answer("small model", ModelFile("m", Path("m.gguf"), None, None), situation)
    assert (found.status, found.finding) == ("fail", f"m: the process that ran it died: killed by {name}")
    assert fix in str(found.fix)


@POSIX
def test_a_build_that_crashes_when_it_is_loaded(situation: DoctorInput, monkeypatch: pytest.MonkeyPatch) -> None:
    crash = child("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(probe, "command", lambda *arguments: crash)
    (found,) = checks.llama(situation)
    assert (found.name, found.status) == ("llama.cpp", "fail")
    assert "SIGSEGV" in found.finding
    assert f"{sys.executable} -m pip install --force-reinstall" in str(found.fix)


def test_a_build_that_is_not_there(situation: DoctorInput, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "command", lambda *arguments: child("import no_such_module"))
    (found,) = checks.llama(situation)
    assert found.status == "fail"
    assert "No module named 'no_such_module'" in found.finding


def test_a_model_that_never_answers(situation: DoctorInput) -> None:
    assert probe.run(child("import time; time.sleep(60)"), {}, timeout=0.2) == probe.Death("timeout", "no result within 0.2 s")


def test_nothing_in_the_current_folder_runs_in_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    report = probe.run(probe.command("backend"), os.environ, gpu=False, timeout=60)
    assert isinstance(report, Mapping)
    assert report["version"]


# -- findings that this machine may not have ---------------------------------------------------------------------------------


def report(**changed: Any) -> dict[str, Any]:
    cpu = {"name": "CPU", "description": "EPYC", "is_gpu": False, "free_bytes": 8e9, "total_bytes": 16e9}
    used = "CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 1 | "
    plain = {"version": "0.3.36", "system_info": used, "backends": ["CPU"], "devices": [cpu]}
    return plain | changed


CUDA = {"name": "CUDA0", "description": "NVIDIA H200", "is_gpu": True, "free_bytes": 139e9, "total_bytes": 141e9}


def test_a_cpu_build_on_a_machine_with_an_nvidia_gpu(fbrag: Run, tmp_path: Path, situation: DoctorInput) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    if not any("CUDA" in line for line in fbrag("--version", "-v").stdout.splitlines()):
        env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "FBRAG_MODELS_DIR": str(tmp_path / "none")}
        told = json.loads(fbrag("doctor", "--offline", "--json", env=env).stdout)["checks"][1]
        assert told["status"] == "warn"
        assert told["fix"] == install_for_gpu(os.environ)
    assert checks.backend(report(), situation, nvidia=False).status == "ok"


def test_devices(situation: DoctorInput) -> None:
    cuda = report(backends=["CUDA", "CPU"], devices=[CUDA, *report()["devices"]])
    assert checks.backend(cuda, situation, nvidia=True) == Check(
        "llama.cpp", "ok", "llama-cpp-python 0.3.36, built for CUDA, CPU"
    )
    found = checks.devices(cuda, situation, nvidia=True)
    assert found.status == "ok"
    assert "CUDA0: NVIDIA H200, 139.0 GB of 141.0 GB free" in found.finding
    blind = report(backends=["CPU", "CUDA"])
    assert checks.devices(blind, situation, nvidia=True).status == "warn"
    assert checks.devices(blind, replace(situation, probe_gpu=False), nvidia=True).status == "ok"
    hidden = replace(situation, environ={"CUDA_VISIBLE_DEVICES": ""})
    assert "hides all GPUs" in checks.devices(blind, hidden, nvidia=True).finding
    assert "hides" not in checks.devices(report(backends=["CPU", "Vulkan"]), hidden, nvidia=True).finding


def test_the_build_for_this_cpu_and_a_portable_one(situation: DoctorInput) -> None:
    native = checks.cpu(report(), {"avx2", "avx512f"}, situation)
    assert native == Check("cpu", "ok", "built for this CPU (AVX2, AVX512)")
    portable = report(system_info="CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 | FMA = 1 | ")
    slow = checks.cpu(portable, {"avx", "avx2", "fma", "avx512f"}, situation)
    told = "This CPU also has AVX512; a native build reads prompts 1.8 times as fast"
    assert slow.finding == f"portable build (AVX, AVX2, FMA only). {told}"
    assert 'CMAKE_ARGS="-DGGML_NATIVE=on" ' in str(slow.fix)
    fits = checks.cpu(portable, {"avx", "avx2", "fma"}, situation)  # all that this CPU has
    assert fits == Check("cpu", "ok", "built for this CPU (AVX, AVX2, FMA)")
    arm = report(system_info="CPU : NEON = 1 | ")
    assert "DOTPROD, MATMUL_INT8" in checks.cpu(arm, {"asimd", "asimddp", "i8mm"}, situation).finding
    assert checks.cpu(arm, set(), situation) == Check("cpu", "ok", "NEON in use")  # macOS
    assert checks.cpu(report(system_info="CPU : "), set(), situation).status == "warn"


def test_a_portable_build_cannot_be_replaced_without_a_compiler(situation: DoctorInput, tmp_path: Path) -> None:
    portable = report(system_info="CPU : AVX2 = 1 | ")
    found = checks.cpu(portable, {"avx512f"}, replace(situation, environ={"PATH": str(tmp_path)}))
    assert str(found.fix).startswith("install a C++ compiler (")


def test_another_version_than_fbrag_needs(situation: DoctorInput) -> None:
    found = checks.backend(report(version="0.3.35"), situation, nvidia=False)
    assert (found.status, "needs llama-cpp-python==0.3.36" in found.finding) == ("warn", True)


def test_the_speed_of_a_model(situation: DoctorInput, smollm2: Path) -> None:
    check = checks.answer("small model", ModelFile("m", smollm2, None, None), replace(situation, gpu="off"))
    speeds = re.search(r"; reads ([\d,]+) tokens/s, writes ([\d,]+)$", check.finding)
    assert speeds
    assert all(int(each.replace(",", "")) > 1 for each in speeds.groups())


def test_a_login_in_the_address_of_both_models_is_not_printed(fbrag: Run) -> None:
    server = "http://me:secret@host/v1"
    done = fbrag("doctor", "--offline", "--skip-gpu", env={"FBRAG_LARGE": server, "FBRAG_SMALL": server})
    assert done.returncode == 1
    assert "secret" not in done.stdout + done.stderr


def test_the_environment_keeps_secrets(situation: DoctorInput) -> None:
    environ = {"HF_TOKEN": "hf_abc", "FBRAG_GPU": "off", "LANG": "C"}
    found = checks.settings(replace(situation, environ=environ))
    assert found == Check("settings", "ok", "no configuration file; FBRAG_GPU HF_TOKEN")
