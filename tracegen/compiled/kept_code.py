"""Machine code as the compilers' cache keeps it: what was read from a listing need not be read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from tracegen.compiled.model import MachineCode
from tracegen.tools import cache
from tracegen.tools.headers import unchanged


@dataclass(frozen=True)
class _Kept:
    """headers : the files that the code includes, see tracegen.tools.headers"""

    code: MachineCode
    headers: Mapping[str, str]


_DECODER = msgspec.json.Decoder(_Kept)


def machine_code(
    key: str, make: Callable[[], tuple[MachineCode, Mapping[str, str]]]
) -> MachineCode:
    """The code under a key of the cache, or else that which `make` returns with its headers; it is saved then."""
    code = load(key)
    if code is None:
        code, headers = make()
        save(key, code, headers)
    return code


def load(key: str) -> MachineCode | None:
    """The code saved under a key of the cache; None if there is none, or a header that it includes has changed."""
    content = cache.load_bytes(key)
    if content is None:
        return None
    try:
        kept = _DECODER.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    return kept.code if unchanged(kept.headers) else None


def save(key: str, code: MachineCode, headers: Mapping[str, str]) -> None:
    """Saves code; headers : see `_Kept`."""
    cache.save_bytes(key, msgspec.json.encode(_Kept(code, headers)))
