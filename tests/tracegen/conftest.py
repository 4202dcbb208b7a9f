"""The OpenCL context that all tests of the tracer share."""

from __future__ import annotations

from typing import Any

import pytest

from tracegen.devices.choice import choose


@pytest.fixture(scope="session")
def context() -> Any:
    return choose()
