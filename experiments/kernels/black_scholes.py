"""Prices of European options by the formula of Black and Scholes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from experiments.kernels.parameters import (
    real_type,
    require_group,
    require_indexable,
    require_positive,
)
from tracegen.workloads import Workload

FloatArray = npt.NDArray[np.float64]


def black_scholes(
    n: int = 4_000_000,
    groups: int = 480,
    block_size: int = 128,
    rate: float = 0.02,
    volatility: float = 0.30,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """Call and put prices of n options: three input streams, two output streams, no reuse.

    groups : number of groups; each work-item prices several options. With 0 every option has a
        work-item
    rate, volatility : of the market, the same for all options
    """
    require_positive(n=n)
    require_group(block_size)
    require_indexable(price=n)
    real = real_type(dtype)
    kernel = _split(_kernel(real), groups, block_size)
    rng = np.random.default_rng(0)
    price, strike, years = (
        rng.uniform(low, high, n).astype(real) for low, high in ((5, 30), (1, 100), (0.25, 10))
    )

    def check(outputs: Mapping[str, Any]) -> None:
        """A price is a difference of two terms; its error is at most 32 roundings of the larger
        one."""
        s, k, t = (values.astype(np.float64) for values in (price, strike, years))
        market = float(real.type(rate)), float(real.type(volatility))
        expected, bound = _expected(s, k, t, *market)
        for name, values in expected.items():
            error = np.abs(outputs[name] - values)
            assert (error <= 32 * np.finfo(real).eps * bound).all(), (
                f"{name} is off by up to {error.max()}"
            )

    arguments = {
        "price": price,
        "strike": strike,
        "years": years,
        "rate": real.type(rate),
        "volatility": real.type(volatility),
    }
    return Workload(kernel, arguments, check=check, source_file=__file__)


def _kernel(real: Any) -> Any:
    suffix = "f" if real == np.float32 else ""
    return lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"""
        for i
            <> s = price[i]
            <> k = strike[i]
            <> t = years[i]
            <> root = sqrt(t)
            <> d1 = (log(s / k) + (rate + 0.5{suffix} * volatility * volatility) * t) / (
                volatility * root)
            <> d2 = d1 - volatility * root
            <> below1 = 0.5{suffix} * erfc(-d1 * {np.sqrt(0.5)}{suffix})
            <> below2 = 0.5{suffix} * erfc(-d2 * {np.sqrt(0.5)}{suffix})
            <> discounted = k * exp(-rate * t)
            call[i] = s * below1 - discounted * below2
            put[i] = discounted * (1 - below2) - s * (1 - below1)
        end
        """,
        [
            lp.ValueArg("n", np.int32),
            lp.ValueArg("rate, volatility", real),
            lp.GlobalArg("price, strike, years", real, shape="n"),
            lp.GlobalArg("call, put", real, shape="n", is_input=False, is_output=True),
        ],
        assumptions="n >= 1",
        name="black_scholes",
        lang_version=(2018, 2),
    )


def _split(kernel: Any, groups: int, block_size: int) -> Any:
    """Work-items that stride over the options, or one work-item for each option."""
    if groups > 0:
        stride = groups * block_size
        kernel = lp.split_iname(kernel, "i", stride, inner_iname="item", outer_iname="step")
        kernel = lp.split_iname(kernel, "item", block_size, inner_tag="l.0", outer_tag="g.0")
    else:
        kernel = lp.split_iname(kernel, "i", block_size, inner_tag="l.0", outer_tag="g.0")
    return kernel


def _expected(
    s: FloatArray, k: FloatArray, t: FloatArray, r: float, v: float
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Both prices in double precision, and the larger of the terms that they are a difference
    of."""
    d1 = (np.log(s / k) + (r + 0.5 * v * v) * t) / (v * np.sqrt(t))
    d2 = d1 - v * np.sqrt(t)
    discounted = k * np.exp(-r * t)
    prices = {
        "call": s * ndtr(d1) - discounted * ndtr(d2),
        "put": discounted * ndtr(-d2) - s * ndtr(-d1),
    }
    return prices, np.maximum(s, discounted)
