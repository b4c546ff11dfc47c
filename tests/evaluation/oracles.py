"""Slow retrieval in float64, one query and one reference at a time, from the definitions."""

import numpy as np


def euclidean(x, y):
    return float(np.sum((np.float64(x) - np.float64(y)) ** 2)) ** 0.5


def poincare(x, y, curvature):
    x, y = np.float64(x), np.float64(y)
    gap = np.sum((x - y) ** 2)
    room = (1 - curvature * np.sum(x**2)) * (1 - curvature * np.sum(y**2))
    return float(np.arccosh(1 + 2 * curvature * gap / room) / curvature**0.5)


def ranking(embeddings, query, gallery, distance):
    """Gallery rows, nearest first, equal distances by row; the query itself is left out."""
    pairs = [(distance(embeddings[query], embeddings[row]), row) for row in gallery if row != query]
    return [row for _, row in sorted(pairs)]


def scores(relevance, recall_at):
    """All metrics of one query from its ranked 0/1 relevances; None if nothing is relevant."""
    total = sum(relevance)
    if total == 0:
        return None
    hits, precisions = 0, []
    for position, relevant in enumerate(relevance, start=1):
        hits += relevant
        precisions.append(hits / position * relevant)
    result = {
        "precision_at_1": float(relevance[0]),
        "r_precision": sum(relevance[:total]) / total,
        "map_at_r": sum(precisions[:total]) / total,
        "map": sum(precisions) / total,
    }
    return result | {f"recall_at_{k}": float(any(relevance[:k])) for k in recall_at}


def retrieval(
    embeddings, labels, *, queries=None, gallery=None, distance=euclidean, recall_at=(1, 2, 4, 8)
):
    """Means over the queries that have a relevant item."""
    rows = range(len(embeddings))
    queries = rows if queries is None else np.flatnonzero(queries)
    gallery = rows if gallery is None else np.flatnonzero(gallery)
    found = []
    for query in queries:
        order = ranking(embeddings, query, gallery, distance)
        found.append(scores([int(labels[row] == labels[query]) for row in order], recall_at))
    counted = [row for row in found if row is not None]
    return {name: sum(row[name] for row in counted) / len(counted) for name in counted[0]}
