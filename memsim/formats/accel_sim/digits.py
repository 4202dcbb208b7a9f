"""Numbers in a buffer of bytes that ends with a newline, for the hot loops over traces' text."""

from __future__ import annotations

import numpy as np

from memsim.compile import inner


@inner
def skip_blanks(buffer, p):
    while buffer[p] == 32 or buffer[p] == 9 or buffer[p] == 13:
        p += 1
    return p


@inner
def hex_(buffer, p):
    """(value, position after it); position -1 without a number below 2^60."""
    p = skip_blanks(buffer, p)
    if buffer[p] == 48 and (buffer[p + 1] | 32) == 120:
        p += 2
    value, first = np.int64(0), p
    while True:
        c = np.int64(buffer[p])
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= (c | 32) <= 102:
            digit = (c | 32) - 87
        else:
            break
        if value >> 56 or p - first > 32:
            return value, np.int64(-1)
        value = value << 4 | digit
        p += 1
    if p == first or c > 32:
        return value, np.int64(-1)
    return value, np.int64(p)


@inner
def decimal(buffer, p):
    """(value, position after it); position -1 without a number below 10^18."""
    p = skip_blanks(buffer, p)
    negative = buffer[p] == 45
    if negative:
        p += 1
    value, first = np.int64(0), p
    while 48 <= buffer[p] <= 57:
        if p - first >= 18:
            return value, np.int64(-1)
        value = value * 10 + (np.int64(buffer[p]) - 48)
        p += 1
    if p == first:
        return value, np.int64(-1)
    return (-value if negative else value), np.int64(p)


@inner
def after_equals(buffer, p):
    while buffer[p] != 61 and buffer[p] != 10:
        p += 1
    return p + (buffer[p] == 61)


@inner
def register_number(buffer, p):
    """(number of a token `R12`, position after it); 255, the zero register, for any other token."""
    p = skip_blanks(buffer, p)
    number = np.int64(255)
    if buffer[p] == 82:
        value, q = decimal(buffer, p + 1)
        if q >= 0 and buffer[q] <= 32 and 0 <= value < 255:
            number = value
    first = p
    while buffer[p] > 32:
        p += 1
    return number, np.int64(p if p > first else -1)
