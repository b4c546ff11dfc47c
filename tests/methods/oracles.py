"""Losses as loops over single numbers, straight from the papers' formulas."""

import math

import numpy as np


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def proxy_nca(x, classes, proxies, scale):
    x, proxies = unit(x), unit(proxies)
    total = 0.0
    for row, label in zip(x, classes, strict=True):
        weights = [math.exp(-scale * ((row - p) ** 2).sum()) for p in proxies]
        total -= math.log(weights[label] / sum(weights))
    return total / len(x)


def proxy_anchor(x, classes, proxies, scale, margin):
    cosines = unit(x) @ unit(proxies).T
    pull, push, present = 0.0, 0.0, 0
    for c in range(len(proxies)):
        own = [
            math.exp(-scale * (cosines[i, c] - margin)) for i in range(len(x)) if classes[i] == c
        ]
        other = [
            math.exp(scale * (cosines[i, c] + margin)) for i in range(len(x)) if classes[i] != c
        ]
        pull += math.log1p(sum(own))
        push += math.log1p(sum(other))
        present += bool(own)
    return pull / present + push / len(proxies)
