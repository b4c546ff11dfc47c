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
    """The metrics of one level and one query from its ranked 0/1 relevances."""
    total = sum(relevance)
    hits, precisions, shares = 0, [], []
    for position, relevant in enumerate(relevance, start=1):
        hits += relevant
        precisions.append(hits / position * relevant)
        shares.append(hits / position)
    result = {
        "precision_at_1": float(relevance[0]),
        "r_precision": sum(relevance[:total]) / total,
        "map_at_r": sum(precisions[:total]) / total,
        "ap": sum(precisions) / total,
        "asi": sum(shares[:total]) / total,
    }
    return result | {f"recall_at_{k}": float(any(relevance[:k])) for k in recall_at}


def h_ap(levels, relevance):
    """From the ranked levels of one query and the relevance of each level."""
    ranked = [relevance[level] for level in levels]
    total = 0.0
    for k, own in enumerate(ranked):
        if own > 0:
            total += sum(min(own, other) for other in ranked[: k + 1]) / (k + 1)
    return total / sum(ranked)


def pop_relevance(levels, depth, alpha, own):
    counts = [levels.count(level) + (own and level == depth) for level in range(depth + 1)]
    return [(level / depth) ** alpha / max(counts[level], 1) for level in range(depth + 1)]


def map_relevance(levels, depth):
    shares = [0.0]
    for level in range(1, depth + 1):
        at_least = sum(other >= level for other in levels)
        shares.append(1 / depth / max(at_least, 1))
    return list(np.cumsum(shares))


def asi(levels):
    ideal = sorted(levels, reverse=True)
    total = sum(level > 0 for level in levels)
    shares = []
    for n in range(1, total + 1):
        both = sum(
            min(levels[:n].count(level), ideal[:n].count(level)) for level in set(ideal) if level
        )
        shares.append(both / n)
    return sum(shares) / total


def ndcg(levels):
    def gain(ranked):
        return sum((2**level - 1) / np.log2(1 + rank) for rank, level in enumerate(ranked, 1))

    return gain(levels) / gain(sorted(levels, reverse=True))


def violations(levels):
    """None if all levels are equal: no order can be broken."""
    broken = pairs = 0
    for second, level in enumerate(levels):
        for before in levels[:second]:
            pairs += before != level
            broken += before < level
    return broken / pairs if pairs else None


def hierarchical(levels, depth, alpha, own):
    """The metrics over all levels of one query from the ranked levels of the gallery."""
    return {
        "h_ap": h_ap(levels, pop_relevance(levels, depth, alpha, own)),
        "h_ap_map": h_ap(levels, map_relevance(levels, depth)),
        "h_asi": asi(levels),
        "h_ndcg": ndcg(levels),
        "h_violations": violations(levels),
    }


def retrieval(
    embeddings,
    labels,
    *,
    queries=None,
    gallery=None,
    distance=euclidean,
    recall_at=(1, 2, 4, 8),
    alpha=1.0,
):
    """Means over the queries that have a relevant item."""
    paths = np.asarray(labels).reshape(len(embeddings), -1)
    depth = paths.shape[1]
    rows = range(len(embeddings))
    queries = rows if queries is None else np.flatnonzero(queries)
    gallery = rows if gallery is None else np.flatnonzero(gallery)
    found: dict[str, list] = {}
    for query in queries:
        order = ranking(embeddings, query, gallery, distance)
        levels = [shared(paths[query], paths[row]) for row in order]
        values: dict[str, float] = {}
        if any(levels):
            values |= hierarchical(levels, depth, alpha, own=query in gallery)
        for level in range(depth):
            prefix = "" if level == depth - 1 else f"level_{level}/"
            relevance = [int(other > level) for other in levels]
            if any(relevance):
                values |= {prefix + k: v for k, v in scores(relevance, recall_at).items()}
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {name: mean([value for value in of if value is not None]) for name, of in found.items()}


def mean(values):
    return sum(values) / len(values) if values else 0.0


def shared(left, right):
    """How many labels of two paths are equal, from the coarsest on."""
    for level, (a, b) in enumerate(zip(left, right, strict=True)):
        if a != b:
            return level
    return len(left)
