"""Chooses the OpenCL device that kernels are traced on, by a test build and a test run.

A listed platform may not work: some fail every build on a CPU newer than they are, some abort the
process. Therefore each device is tried in a child process (`trial.py`), in the order vendor GPU, PoCL,
Intel's CPU runtime, others, Oclgrind. The first that computes correct numbers is chosen, and remembered
(`remembered.py`). The environment variable MEMSIM_OPENCL, a part of a platform's name or `platform:device`, overrides this.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memsim.errors import OpenCLError
from tracegen.devices import remembered
from tracegen.devices import trial as opencl_trial

VARIABLE = "MEMSIM_OPENCL"
INSTALL = "apt-get install pocl-opencl-icd ocl-icd-libopencl1"
TRIAL_SECONDS = 120
"""A trial that takes longer is taken to hang. PoCL's first build on a cold disk takes about two seconds."""

_TRIAL_FILE = Path(opencl_trial.__file__)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One OpenCL device and the result of its trial.

    ok : True after a trial with correct numbers, False after a failed one, None where none was needed
    reason : why it cannot be used, in one line; empty otherwise
    """

    platform_index: int
    device_index: int
    platform: str
    platform_version: str
    device: str
    driver_version: str
    types: tuple[str, ...]
    ok: bool | None = None
    reason: str = ""

    @property
    def key(self) -> tuple[int, int]:
        """Identifies the device on this machine."""
        return (self.platform_index, self.device_index)

    @property
    def title(self) -> str:
        return f"{self.platform}: {self.device}"


def choose() -> Any:
    """The pyopencl.Context of the first device that passes its trial; made once a process.

    Raises OpenCLError, with what to install, where none does or MEMSIM_OPENCL names none.
    """
    return _context(os.environ.get(VARIABLE, "").strip())


def chosen() -> Candidate:
    """The device that `choose` takes."""
    return _choice(os.environ.get(VARIABLE, "").strip())


def survey() -> list[Candidate]:
    """Every device in order of preference, each one tried, in a process of its own."""
    return [_tried(candidate) for candidate in _listed()]


@functools.cache
def _context(wanted: str) -> Any:
    import pyopencl as cl

    key = remembered.key(wanted)
    device = remembered.load(key)
    if device is not None:
        with contextlib.suppress(cl.Error):
            return cl.Context([device])
    choice = _choice(wanted)
    try:
        device = cl.get_platforms()[choice.platform_index].get_devices()[choice.device_index]
        context = cl.Context([device])
    except (cl.Error, IndexError) as error:
        raise OpenCLError(
            f"{choice.title} passed its trial, but its context cannot be made:"
            f" {opencl_trial.first_lines(str(error))}"
        ) from error
    remembered.save(key, dataclasses.asdict(choice))
    return context


@functools.cache
def _choice(wanted: str) -> Candidate:
    listed, failed = _listed(), []
    for candidate in listed:
        if opencl_trial.matches(dataclasses.asdict(candidate), wanted):
            tried = _tried(candidate)
            if tried.ok:
                return tried
            failed.append(tried)
    raise OpenCLError(_why_none(wanted, listed, failed))


def _why_none(wanted: str, candidates: list[Candidate], failed: list[Candidate]) -> str:
    if not candidates:
        vendors = os.environ.get("OCL_ICD_VENDORS")
        where = f" in OCL_ICD_VENDORS={vendors}" if vendors else ""
        return f"no OpenCL platform is installed{where}; on Debian: {INSTALL}"
    if not failed:
        names = ", ".join(dict.fromkeys(c.title for c in candidates))
        return f"{VARIABLE}={wanted} names none of the OpenCL devices: {names}"
    named = f" that {VARIABLE}={wanted} names" if wanted else ""
    reasons = "; ".join(f"{c.title}: {c.reason}" for c in failed)
    return (
        f"no OpenCL device{named} passes a test build ({reasons});"
        f" on Debian: {INSTALL}; 'memsim doctor' reports more"
    )


def _listed() -> list[Candidate]:
    """Every device, in order of preference."""
    said, end = _child(None)
    if "error" in said:
        raise OpenCLError(f"OpenCL cannot list its devices: {said['error']}")
    if "devices" not in said:
        raise OpenCLError(
            f"listing the OpenCL devices {end or 'returned nothing'}: an installed platform is broken;"
            " remove its .icd file, or set OCL_ICD_VENDORS to that of one that works"
        )
    return [Candidate(**{**one, "types": tuple(one["types"])}) for one in said["devices"]]


def _tried(candidate: Candidate) -> Candidate:
    """The candidate with the result of its trial."""
    said, end = _child(candidate.key)
    reason = said.get("reason", said.get("error", end or "returned no result"))
    return dataclasses.replace(candidate, ok=not reason, reason=reason)


def _child(device: tuple[int, int] | None) -> tuple[dict[str, Any], str]:
    """What a child process says, {} if nothing, and how it ended, "" if well. device : to try; None to list them"""
    # -P keeps this folder off the child's path: its files must not shadow the standard library's.
    command = [sys.executable, "-P", str(_TRIAL_FILE), json.dumps(device)]
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            timeout=TRIAL_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        output, end = child.stdout, _end_of(child.returncode, child.stderr)
    except subprocess.TimeoutExpired as expired:
        output, end = expired.stdout or b"", f"did not finish within {TRIAL_SECONDS} s"
    except OSError as error:
        raise OpenCLError(
            f"cannot start {sys.executable} to try OpenCL devices: {error}"
        ) from error
    said: dict[str, Any] = {}
    for line in output.decode(errors="replace").splitlines():
        if line.startswith(opencl_trial.MARK):
            said = json.loads(line.removeprefix(opencl_trial.MARK))
    return said, end


def _end_of(returncode: int, stderr: bytes) -> str:
    """How a child ended, in words; empty where it ended well."""
    if returncode == 0:
        return ""
    if returncode < 0:
        try:
            how = f"crashed ({signal.Signals(-returncode).name})"
        except ValueError:
            how = f"crashed (signal {-returncode})"
    else:
        how = f"ended with exit code {returncode}"
    last = opencl_trial.first_lines(stderr.decode(errors="replace"))
    return f"{how}: {last}" if last else how
