"""The checks of `memsim doctor`: what is installed and, where something is wrong, how to repair it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from memsim.errors import MemsimError
from tracegen import tools
from tracegen.compiled import KNOWN_TRITON
from tracegen.devices import choice as opencl
from tracegen.devices import trial as opencl_trial

SCHEMA = 1
Status = Literal["ok", "note", "missing"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One finding.

    status : `ok`; `note`, if kernels can be traced and replayed without it; `missing`, if not
    found : what was found, in one line
    mend : how to repair it, "" where nothing needs repair
    """

    name: str
    status: Status
    found: str
    mend: str = ""


def examine() -> list[Check]:
    """Every check, in the order of installation."""
    return [_python(), *_packages(), *_opencl(), *_compilers(), _triton(), _barvinok(), *_folders()]


def is_healthy(checks: list[Check]) -> bool:
    """Whether kernels can be traced and replayed."""
    return all(check.status != "missing" for check in checks)


def as_json(checks: list[Check]) -> dict[str, Any]:
    """The findings as the `--json` contract has them."""
    return {
        "schema": SCHEMA,
        "healthy": is_healthy(checks),
        "checks": [asdict(check) for check in checks],
    }


def _python() -> Check:
    found = f"{platform.python_version()} at {sys.executable}"
    return Check(name="Python", status="ok", found=found)


def _packages() -> Iterator[Check]:
    """The requirements of the installed distribution against the installed packages."""
    from packaging.requirements import Requirement

    try:
        requirements = [Requirement(text) for text in importlib.metadata.requires("memsim") or ()]
    except importlib.metadata.PackageNotFoundError:
        yield Check(
            name="memsim",
            status="missing",
            found="not installed, so its commands and requirements are unknown",
            mend="pip install .",
        )
        return
    yield Check(name="memsim", status="ok", found=importlib.metadata.version("memsim"))
    for requirement in requirements:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        specifier = str(requirement.specifier)
        mend = f"pip install '{requirement.name}{specifier}'"
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            found = f"not installed, needs {specifier}"
            yield Check(name=requirement.name, status="missing", found=found, mend=mend)
            continue
        if requirement.specifier.contains(version, prereleases=True):
            yield Check(name=requirement.name, status="ok", found=version)
        else:
            found = f"{version}, needs {specifier}"
            yield Check(name=requirement.name, status="missing", found=found, mend=mend)


def _opencl() -> Iterator[Check]:
    """Every device with its trial's outcome, and then the one that kernels will be traced on."""
    try:
        candidates = opencl.survey()
    except MemsimError as error:
        yield Check(
            name="OpenCL", status="missing", found=str(error), mend=f"on Debian: {opencl.INSTALL}"
        )
        return
    try:
        choice = opencl.chosen()
    except MemsimError as error:
        choice, why = None, str(error)
    for candidate in candidates:
        if choice is not None and candidate.key == choice.key:
            continue
        if candidate.ok:
            choice_made = os.environ.get(opencl.VARIABLE)
            why_not = (
                f"{opencl.VARIABLE}={choice_made}" if choice_made else "ranks below the chosen one"
            )
            found = f"works (driver {candidate.driver_version}); not chosen: {why_not}"
            mend = f"to use it: export {opencl.VARIABLE}='{_name_apart(candidate, choice)}'"
        else:
            found, mend = f"not usable: {candidate.reason}", ""
        yield Check(name=f"OpenCL {candidate.title}", status="note", found=found, mend=mend)
    if choice is None:
        mend = f"on Debian: {opencl.INSTALL}"
        yield Check(name="OpenCL", status="missing", found=why, mend=mend)
    else:
        found = f"chosen: {choice.title} (driver {choice.driver_version}), by a test build and run"
        yield Check(name="OpenCL", status="ok", found=found)


def _name_apart(candidate: opencl.Candidate, choice: opencl.Candidate | None) -> str:
    """What MEMSIM_OPENCL takes for this device: its platform, and the device where that is not enough."""
    platform = candidate.platform.split("(")[0].strip()
    if choice is not None and opencl_trial.matches(asdict(choice), platform):
        return f"{platform}:{candidate.device}"
    return platform


def _compilers() -> Iterator[Check]:
    """What compiles kernels for GPUs that are not there."""
    for vendor, find in (("NVIDIA", tools.nvidia_tools), ("AMD", tools.amd_tools)):
        name = f"compilers for {vendor}"
        try:
            versions = find().versions
        except tools.CompilerMissing as error:
            found = f"{error.reason}: {tools.COST}"
            yield Check(name=name, status="note", found=found, mend=error.mend)
            continue
        found = ", ".join(f"{tool} {version}" for tool, version in versions.items())
        yield Check(name=name, status="ok", found=found)
    libraries: dict[str, Callable[[], object]] = {
        "CUDA C++": tools.nvrtc_tool,
        "OpenCL C": tools.nvvm_tools,
    }
    for language, find_library in libraries.items():
        name = f"NVIDIA's own for {language}"
        try:
            yield Check(name=name, status="ok", found=str(find_library()))
        except tools.CompilerMissing as error:
            found = f"{error.reason}: clang alone compiles {language}, with other registers and orders of loads"
            yield Check(name=name, status="note", found=found, mend=error.mend)
    folders = tools.cuda_headers()
    if not all(
        any((folder / file).exists() for folder in folders) for file in tools.CUDA_HEADERS.values()
    ):
        found = "missing: what includes cuda_fp16.h, cooperative_groups.h, <type_traits> and the like is compiled by clang"
        yield Check(
            name="CUDA's headers and libcu++", status="note", found=found, mend=tools.INSTALL_NVRTC
        )


def _triton() -> Check:
    name = "Triton"
    try:
        found = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        found, mend = (
            "not installed: kernels in Triton are not traced",
            "pip install 'memsim[triton]'",
        )
        return Check(name=name, status="note", found=found, mend=mend)
    if found.startswith(KNOWN_TRITON):
        return Check(name=name, status="ok", found=found)
    mend = f"pip install 'triton=={KNOWN_TRITON}.*'"
    found = f"{found}: its compiler may differ from that of {KNOWN_TRITON}, which is known here"
    return Check(name=name, status="note", found=found, mend=mend)


def _barvinok() -> Check:
    name = "barvinok"
    try:
        import islpy
    except ImportError as error:
        return Check(name=name, status="missing", found=f"islpy: {error}", mend="pip install islpy")
    if hasattr(islpy.Set, "card"):
        return Check(name=name, status="ok", found="islpy counts sets symbolically")
    return Check(
        name=name,
        status="note",
        found="not installed: sets are counted exactly at given sizes, not symbolically",
        mend="pip install --no-deps --force-reinstall islpy-barvinok==2025.2.5.post1"
        " (GPL; replaces islpy's files, so last)",
    )


def _folders() -> Iterator[Check]:
    mend = "set TMPDIR to a folder that you may write to"
    try:
        yield _writable("temporary files", Path(tempfile.gettempdir()), mend)
    except FileNotFoundError as error:
        found = error.strerror or str(error)
        yield Check(name="temporary files", status="missing", found=found, mend=mend)
    # These folders cache compiled code; without them the first call of each process is slow.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    yield _writable(
        "OpenCL build cache",
        Path(os.environ.get("POCL_CACHE_DIR") or cache),
        "set XDG_CACHE_HOME to a folder that you may write to",
        "note",
    )
    spec = importlib.util.find_spec("memsim")
    package = Path(spec.origin).parent if spec is not None and spec.origin else Path.cwd()
    own = os.environ.get("NUMBA_CACHE_DIR")
    folders = [Path(own)] if own else [package, cache]
    mend = "set NUMBA_CACHE_DIR to a folder that you may write to"
    checks = [_writable("numba cache", folder, mend, "note") for folder in folders]
    yield next((check for check in checks if check.status == "ok"), checks[0])
    yield _compiled_loops(
        [Path(own)] if own else [package, package.parent / "tracegen", cache / "numba"]
    )


def _compiled_loops(folders: list[Path]) -> Check:
    """Files of numba's cache that a full disk or a crash has damaged."""
    name = "compiled loops"
    try:
        from memsim.compile import damaged_cache_files
    except ImportError as error:
        return Check(name=name, status="missing", found=str(error), mend="pip install numba")
    damaged = [file for folder in folders for file in damaged_cache_files(folder)]
    if not damaged:
        return Check(name=name, status="ok", found="no file of numba's cache is damaged")
    return Check(
        name=name,
        status="note",
        found=f"{len(damaged)} damaged: {damaged[0]}",
        mend="nothing: they are compiled again when they are needed",
    )


def _writable(name: str, folder: Path, mend: str, otherwise: Status = "missing") -> Check:
    """Whether a file can be made in the folder, or in the nearest folder above that exists."""
    place = next((p for p in (folder, *folder.absolute().parents) if p.is_dir()), Path("/"))
    try:
        with tempfile.NamedTemporaryFile(dir=place):
            return Check(name=name, status="ok", found=str(folder))
    except OSError as error:
        found = f"{folder} cannot be written: {error.strerror}"
        return Check(name=name, status=otherwise, found=found, mend=mend)
