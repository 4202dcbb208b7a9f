"""European options by the formula of Black and Scholes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np
from scipy.special import ndtr

from experiments.kernels.parameters import (
    real_type,
    require_group,
    require_indexable,
    require_positive,
)
from tracegen.workloads import Workload


def black_scholes(
    n: int = 4_000_000,
    groups: int = 480,
    block_size: int = 128,
    rate: float = 0.02,
    volatility: float = 0.30,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """Call and put prices of n options: three streams in, two out, nothing used twice.

    groups : the grid; items stride over the options, as was the habit while a grid was narrow. 0
        gives each option an item of its own
    rate, volatility : of the market, the same for all
    """
    require_positive(n=n)
    require_group(block_size)
    require_indexable(price=n)
    real = real_type(dtype)
    strided = groups > 0
    suffix = "f" if dtype == "float32" else ""
    kernel = lp.make_kernel(
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
    if strided:
        stride = groups * block_size
        kernel = lp.split_iname(kernel, "i", stride, inner_iname="item", outer_iname="step")
        kernel = lp.split_iname(kernel, "item", block_size, inner_tag="l.0", outer_tag="g.0")
    else:
        kernel = lp.split_iname(kernel, "i", block_size, inner_tag="l.0", outer_tag="g.0")
    rng = np.random.default_rng(0)
    price, strike, years = (
        rng.uniform(low, high, n).astype(real) for low, high in ((5, 30), (1, 100), (0.25, 10))
    )

    def check(outputs: Mapping[str, Any]) -> None:
        """Prices are within 32 roundings of the larger of the two that they are a difference of."""
        s, k, t = (values.astype(np.float64) for values in (price, strike, years))
        r, v = np.float64(real.type(rate)), np.float64(real.type(volatility))
        d1 = (np.log(s / k) + (r + 0.5 * v * v) * t) / (v * np.sqrt(t))
        d2 = d1 - v * np.sqrt(t)
        discounted = k * np.exp(-r * t)
        expected = {
            "call": s * ndtr(d1) - discounted * ndtr(d2),
            "put": discounted * ndtr(-d2) - s * ndtr(-d1),
        }
        bound = 32 * np.finfo(real).eps * np.maximum(s, discounted)
        for name, values in expected.items():
            error = np.abs(outputs[name] - values)
            assert (error <= bound).all(), f"{name} is off by up to {error.max()}"

    arguments = {
        "price": price,
        "strike": strike,
        "years": years,
        "rate": real.type(rate),
        "volatility": real.type(volatility),
    }
    return Workload(kernel, arguments, check=check, source_file=__file__)
