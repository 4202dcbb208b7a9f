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
from collections.abc import Sequence
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
    listed, _ = _run_trial(only=[])
    tried: list[Candidate] = []
    for candidate in listed:
        again, _ = _run_trial(only=[candidate.key])
        tried.extend(c for c in again if c.key == candidate.key)
    return tried


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
    failed: dict[tuple[int, int], Candidate] = {}
    while True:
        candidates, ended_well = _run_trial(wanted=wanted, skip=list(failed))
        for candidate in candidates:
            if candidate.ok:
                return candidate
        newly_failed = {c.key: c for c in candidates if c.ok is False}
        failed |= newly_failed
        if ended_well or not newly_failed:
            raise OpenCLError(_why_none(wanted, candidates, list(failed.values())))


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


def _run_trial(
    *,
    wanted: str = "",
    skip: Sequence[tuple[int, int]] = (),
    only: Sequence[tuple[int, int]] | None = None,
) -> tuple[list[Candidate], bool]:
    """Results of one child process: every device, in order of preference, and whether it ended normally.

    Where it did not, the device under trial has failed, and those behind it were not reached.
    """
    request = json.dumps({"wanted": wanted, "skip": list(skip), "only": only})
    # -P keeps this folder off the child's path: its files must not shadow the standard library's.
    command = [sys.executable, "-P", str(_TRIAL_FILE), request]
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

    devices: list[dict[str, Any]] | None = None
    reasons: dict[tuple[int, int], str] = {}
    for line in output.decode(errors="replace").splitlines():
        if not line.startswith(opencl_trial.MARK):
            continue
        record = json.loads(line.removeprefix(opencl_trial.MARK))
        if "error" in record:
            raise OpenCLError(f"OpenCL cannot list its devices: {record['error']}")
        if "devices" in record:
            devices = record["devices"]
        if "trying" in record:
            reasons[_key(record["trying"])] = end or "returned no result"
        if "tried" in record:
            reasons[_key(record["tried"])] = record["reason"]
    if devices is None:
        raise OpenCLError(
            f"listing the OpenCL devices {end or 'returned nothing'}: an installed platform is broken;"
            " remove its .icd file, or set OCL_ICD_VENDORS to that of one that works"
        )
    candidates = []
    for device in devices:
        candidate = Candidate(**{**device, "types": tuple(device["types"])})
        reason = reasons.get(candidate.key)
        if reason is not None:
            candidate = dataclasses.replace(candidate, ok=not reason, reason=reason)
        candidates.append(candidate)
    return candidates, not end


def _key(pair: list[int]) -> tuple[int, int]:
    platform_index, device_index = pair
    return (platform_index, device_index)


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
