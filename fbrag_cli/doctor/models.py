"""Checks of the two models (present, verified, able to answer) and of the disk for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fbrag_cli.doctor import probe
from fbrag_cli.doctor.check import Check, Situation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import install
from fbrag_cli.generation.server.address import Address, is_local, is_server, server_key
from fbrag_cli.models.catalogue import load_catalogue
from fbrag_cli.models.store import ModelFile, locate, resolve
from fbrag_cli.storage.places import is_nowhere
from fbrag_cli.text.printable import byte_size

_SERVER_SECONDS = 10


def models(situation: Situation, *, run: bool = True) -> Iterator[Check]:
    """Check the file of each model of the pair, then run it. A model that serves as both is checked once.

    A server only has to name its model; no text is sent to it. run: whether llama.cpp loads, which runs the files.
    """
    small, file = _found("small model", situation.small, situation)
    yield small
    if file and run:
        yield answer("small model runs", file, situation)
    if situation.large == situation.small:
        yield replace(small, name="large model", finding="the same as the small one")
    else:
        large, file = _found("large model", situation.large, situation)
        yield large
        if file and run:
            yield answer("large model runs", file, situation)


def local_servers(situation: Situation) -> Check:
    """Report the servers of models that run on this machine: `--large local` takes their models."""
    from fbrag_cli.generation.server.local import find, listed, options, ports

    if not (found := find(situation.environ)):
        tried = ", ".join(map(str, ports(situation.environ).values()))
        return Check("model servers", "ok", f"none on this machine (ports {tried})")
    return Check("model servers", "ok", f"{listed(found)}: {options(found)}")


def _found(label: str, name: str, situation: Situation) -> tuple[Check, ModelFile | None]:
    if is_server(name):
        return server(label, name, situation), None
    return model(label, name, situation.models_dir)


def server(label: str, name: str, situation: Situation) -> Check:
    """Check that the server answers, and has the model."""
    from fbrag_cli.generation.server.about import about
    from fbrag_cli.generation.server.client import Host, Patience
    from fbrag_cli.generation.server.local import look

    try:
        address = Address.parse(look(name, situation.environ).address if is_local(name) else name)
        if situation.offline and not address.is_loopback:
            return Check(label, "ok", f"{address.base}: not asked (--offline)")
        key = None if is_local(name) else server_key(situation.key_file, situation.environ)
        found = about(Host(address, key, Patience(known=_SERVER_SECONDS)))
    except FbragError as error:
        return Check(label, "fail", error.message, error.hint)
    window = f", {found.context_tokens:,} tokens of context" if found.context_tokens else ""
    return Check(label, "ok", f"{address.base} answers: {found.model}{window}")


def model(label: str, name: str, folder: Path) -> tuple[Check, ModelFile | None]:
    """Check that the file exists and is the one that its name stands for. Return it, None if it cannot be run."""
    try:
        file = resolve(name, folder, load_catalogue())
    except FbragError as error:
        to_be_pulled = error.code == "model_missing" and load_catalogue().find(name)
        return Check(label, "warn" if to_be_pulled else "fail", f"{error.message}; not run", error.hint), None
    verified = "SHA-256 verified" if file.sha256 else "no SHA-256 to verify it against"
    return Check(label, "ok", f"{file.name}: {file.path}, {verified}"), file


def answer(label: str, file: ModelFile, situation: Situation) -> Check:
    """Load the model, let it write a few words and read a short prompt, in a child process."""
    gpu = situation.probe_gpu and situation.gpu != "off"
    ask = probe.command("model", str(file.path.absolute()), "auto" if gpu else "0", str(situation.threads or 0))
    report = probe.run(ask, situation.environ, gpu=gpu)
    if isinstance(report, probe.Death):
        what = f"{file.name}: the child process died: {report.what}"
        return Check(label, "fail", what, _fix_of_death(report, situation, gpu=gpu))
    if "error" in report:
        return Check(label, "fail", report["error"], report["hint"])
    finding = (
        f"{file.name}: loaded in {report['load_seconds']:.1f} s, answered in {report['answer_seconds']:.1f} s, "
        f"{report['gpu_layers']} layers on the GPU"
    )
    if not report["generated_tokens"]:
        fix = "choose a model that is trained to chat (Instruct)"
        return Check(label, "warn", f"{finding}; it wrote nothing", fix)
    return Check(label, "ok", f"{finding}; reads {report['reads']:,.0f} tokens/s, writes {report['writes']:,.0f}")


def _fix_of_death(death: probe.Death, situation: Situation, *, gpu: bool) -> str:
    if death.cause == "timeout":
        return "run fbrag doctor again when the machine is idle, or choose a smaller model"
    if death.cause == "SIGKILL":
        return "probably out of memory: close other programs, or choose a smaller model (fbrag models list --all)"
    if death.cause == "SIGABRT":  # a check of llama.cpp's own has failed
        return "check the file (fbrag models verify), or use another model (fbrag models list --all)"
    if death.cause == "SIGILL":  # the build uses instructions that this CPU does not have
        return install(situation.environ, CMAKE_ARGS="-DGGML_NATIVE=on")
    if death.cause and gpu:
        return f"see whether it is the GPU (fbrag doctor --no-gpu-probe), or {install(situation.environ)}"
    return install(situation.environ)


def disk(situation: Situation) -> Check:
    """Check that the models' folder has room for those of the pair that are missing."""
    folder, catalogue = situation.models_dir, load_catalogue()
    if is_nowhere(folder):
        return Check("disk", "warn", "this user has no home folder for models", "set FBRAG_MODELS_DIR to a folder")
    existing = next(filter(os.path.exists, (folder, *folder.parents)), None)
    if existing is None:
        return Check("disk", "warn", f"{folder} is on no disk that is here", "set FBRAG_MODELS_DIR to another folder")
    free = shutil.disk_usage(existing).free
    entries = {name: catalogue.find(name) for name in (situation.small, situation.large)}
    needed = sum(entry.bytes for name, entry in entries.items() if entry and not locate(name, folder, catalogue))
    finding = f"{byte_size(free)} free at {folder}"
    if free < needed:
        short = f"{finding}, and the missing models need {byte_size(needed)}"
        return Check("disk", "warn", short, "make room, or set FBRAG_MODELS_DIR to a folder on another disk")
    if needed and not os.access(existing, os.W_OK):
        what = f"{folder} cannot be written, and the missing models need {byte_size(needed)}"
        return Check("disk", "warn", what, "set FBRAG_MODELS_DIR to a folder that can be written")
    return Check("disk", "ok", finding)
