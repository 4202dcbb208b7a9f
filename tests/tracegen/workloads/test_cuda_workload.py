"""What a CudaWorkload is made of is checked where it is made."""

from __future__ import annotations

from typing import Any

import pytest

from memsim.errors import KernelError
from tracegen import CudaWorkload


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("grid", value) for value in (1.5, "x", None, (1, 2.0))),
        *(("block", value) for value in ("a", float("nan"), [None])),
        *(("symbols", value) for value in (3, ["a"])),
        *(("build_options", value) for value in (3, [1])),
        ("registers_per_item", "a"),
    ],
)
def test_a_field_of_another_type_is_named(field: str, value: Any) -> None:
    with pytest.raises(KernelError, match=rf"^{field} must be .*, got ") as caught:
        CudaWorkload(source="", **{"grid": 1, "block": 32, field: value})
    assert "\n" not in str(caught.value)
