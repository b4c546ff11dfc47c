"""Time and memory of the evaluation beside the ways in which it is done elsewhere.

flat          P@1, R-precision and MAP@R of one level against pytorch-metric-learning's calculator,
              with lists as long as the largest class (k="max_bin_count") and with its default
hierarchical  all metrics of three levels against a full sort of every row, from which H-AP, ASI,
              NDCG and AP are computed for 256 rows at a time, level by level, and the relevance row
              by row, which is the structure of HAPPIER's evaluator
sop           all metrics at the size of Stanford Online Products' test set, two levels, as a
              multiple of the matrix product alone, in blocks of 1,024 queries
ball          recall@k by the Poincare distance against a loop over queries, once for every k,
              which is the structure of HIER's evaluator, and against one loop for all k

What a peer would need minutes or more for is measured on the first queries and scaled; on those
queries it must give the same numbers. Peak memory is that of a process that does nothing else, its
imports included.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from torch import Tensor

from hsearch.evaluation.evaluate import retrieval_metrics
from hsearch.results import Metrics

IntArray = NDArray[np.int64]
FLAT_NAMES = {
    "precision_at_1": "precision_at_1",
    "r_precision": "r_precision",
    "mean_average_precision_at_r": "map_at_r",
}
RECALL_AT = (1, 2, 4, 8)
CURVATURE = 0.1
SPREAD = 1.5  # of images around their class, in units of the spread of classes
PER_CLASS = 5  # images, about as many as a product of Stanford Online Products has
TURNS = 3
SORTED_TOGETHER = 256  # rows
PEER, DEFAULT, SORTED, PRODUCT, LOOP = 1.0, 20.0, 10.0, 3.0, 100.0
GIB = 1.5


@dataclass(frozen=True)
class Size:
    """Images and dimensions of each part, and how many queries scaled peers get."""

    flat: tuple[int, int]
    sop: tuple[int, int]
    ball: tuple[int, int]
    queries: int


FULL = Size((24_000, 128), (60_502, 512), (12_000, 128), 512)
QUICK = Size((1_200, 32), (1_500, 64), (600, 32), 120)


def made_up(size: tuple[int, int], labels: tuple[int, ...]) -> tuple[NDArray[np.float32], IntArray]:
    """Returns unit embeddings (N, D) and label paths: so many labels of each coarser level."""
    count, dim = size
    rng = np.random.default_rng(0)
    fine = rng.permutation(np.arange(count) // PER_CLASS)
    classes = int(fine.max()) + 1
    columns, vectors = [fine], rng.normal(size=(classes, dim))[fine]
    for number in reversed(labels):
        # Uneven groups: the largest has three times as many classes as the smallest.
        shares = np.linspace(0.5, 1.5, number).cumsum()
        edges = shares[:-1] / shares[-1] * int(columns[0].max())
        columns.insert(0, np.searchsorted(edges, columns[0]))
        vectors += rng.normal(size=(number, dim))[columns[0]]
    vectors += SPREAD * rng.normal(size=vectors.shape)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32), np.stack(columns, axis=1)


def timed(work: Callable[[], Metrics]) -> tuple[float, Metrics]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def assert_equal(ours: Metrics, theirs: Metrics) -> None:
    """Names of `theirs` decide; float32 sums of a peer differ by 1e-5."""
    for name, value in theirs.items():
        if not np.isclose(ours[name], value, rtol=0, atol=1e-5):
            raise ValueError(f"{name} is {ours[name]} by hsearch and {value} by its peer.")


def pml(embeddings: NDArray[np.float32], labels: IntArray, k: str | None, queries: int) -> Metrics:
    calculator = AccuracyCalculator(
        include=tuple(FLAT_NAMES), k=k, device=torch.device("cpu"), return_per_class=False
    )
    x, y = torch.from_numpy(embeddings), torch.from_numpy(labels)
    found = calculator.get_accuracy(x[:queries], y[:queries], x, y, ref_includes_query=True)
    return {ours: float(found[theirs]) for theirs, ours in FLAT_NAMES.items()}


def flat(size: Size) -> list[str]:
    embeddings, paths = made_up(size.flat, ())
    labels, count = paths[:, -1], len(embeddings)
    ratios = []
    for _ in range(TURNS):
        own, ours = timed(lambda: retrieval_metrics(embeddings, labels))
        peer, theirs = timed(lambda: pml(embeddings, labels, "max_bin_count", count))
        assert_equal(ours, theirs)
        ratios.append((peer / own, own, peer))
    ratio, own, peer = sorted(ratios)[TURNS // 2]
    few = min(size.queries, count)
    first = np.arange(count) < few
    part, theirs = timed(lambda: pml(embeddings, labels, None, few))
    assert_equal(retrieval_metrics(embeddings, labels, queries=first), theirs)
    default = part * count / few
    print(f"flat          {own:9.2f} s   PML, k of the largest class {peer:8.2f} s {ratio:7.1f}x")
    print(f"{'':27}PML, default *            {default:8.1f} s {default / own:7.1f}x")
    return missed(("flat", ratio, PEER), ("flat default", default / own, DEFAULT))


def full_sort(embeddings: NDArray[np.float32], paths: IntArray, queries: int) -> Metrics:
    """H-AP, ASI, NDCG and AP of every level from whole rows, sorted."""
    x, labels = torch.from_numpy(embeddings), torch.from_numpy(paths)
    parts = []
    for start in range(0, queries, SORTED_TOGETHER):
        rows = torch.arange(start, min(start + SORTED_TOGETHER, queries))
        similarities = x[rows] @ x.T
        similarities[torch.arange(len(rows)), rows] = torch.inf
        order = similarities.argsort(dim=1, descending=True)[:, 1:]
        levels = (labels[order] == labels[rows, None]).sum(dim=2)
        parts.append(metrics_of_rows(levels, paths.shape[1]))
    return {name: float(torch.cat([part[name] for part in parts]).mean()) for name in parts[0]}


def metrics_of_rows(levels: Tensor, depth: int) -> dict[str, Tensor]:
    """Returns the metrics (q,) of rows of ranked levels (q, N)."""
    ranks = torch.arange(1, levels.shape[1] + 1, dtype=torch.float64)
    relevance, by_level = relevances(levels, depth)
    ahead = torch.zeros_like(relevance)
    for level in range(1, depth + 1):
        counted = torch.minimum(relevance, by_level[:, level, None]).cumsum(dim=1)
        ahead = torch.where(levels == level, counted, ahead)
    found = {"h_ap": (ahead / ranks).sum(dim=1) / relevance.sum(dim=1)}
    ideal = levels.sort(dim=1, descending=True).values
    total = (levels > 0).sum(dim=1, keepdim=True)
    both = torch.zeros_like(relevance)
    for level in range(1, depth + 1):
        both += torch.minimum((levels == level).cumsum(dim=1), (ideal == level).cumsum(dim=1))
    found["h_asi"] = (both / ranks * (ranks <= total)).sum(dim=1) / total[:, 0]
    gains = [((2.0**order - 1.0) / torch.log2(1.0 + ranks)).sum(dim=1) for order in (levels, ideal)]
    found["h_ndcg"] = gains[0] / gains[1]
    for level in range(1, depth + 1):
        hits = levels >= level
        prefix = "" if level == depth else f"level_{level - 1}/"
        precision = hits.cumsum(dim=1) / ranks * hits
        found[f"{prefix}ap"] = precision.sum(dim=1) / hits.sum(dim=1)
    return found


def relevances(levels: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Returns the relevance of every image (q, N) and of every level (q, L + 1), row by row."""
    by_level = torch.zeros(len(levels), depth + 1, dtype=torch.float64)
    for row, of_row in enumerate(levels):
        present, counts = torch.unique(of_row, return_counts=True)
        sizes = counts + (present == depth)
        by_level[row, present] = present.double() / depth / sizes
    return by_level.gather(1, levels), by_level


def three_levels(size: Size) -> tuple[NDArray[np.float32], IntArray]:
    count = size.flat[0]
    return made_up(size.flat, (12, count // 100))


def peak_memory(quick: bool) -> float:
    """Returns the peak of a fresh process that scores three levels, in GiB."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak_memory, (quick,))


def _peak_memory(quick: bool) -> float:
    retrieval_metrics(*three_levels(QUICK if quick else FULL), whole_list=True)
    # Not `ru_maxrss`, which a new process has from the one that started it.
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) / 2**20


def hierarchical(size: Size) -> list[str]:
    embeddings, paths = three_levels(size)
    count = len(embeddings)
    own = min(timed(lambda: retrieval_metrics(embeddings, paths, whole_list=True))[0] for _ in "12")
    few = min(size.queries, count)
    part, theirs = timed(lambda: full_sort(embeddings, paths, few))
    first = np.arange(count) < few
    assert_equal(retrieval_metrics(embeddings, paths, queries=first, whole_list=True), theirs)
    peer = part * count / few
    memory = peak_memory(size is QUICK)
    print(f"hierarchical  {own:9.2f} s   rows sorted whole *      {peer:8.1f} s {peer / own:7.1f}x")
    print(f"{'':27}peak memory {memory:27.2f} GiB")
    return missed(("hierarchical", peer / own, SORTED), ("memory", GIB / memory, 1.0))


def sop(size: Size) -> list[str]:
    embeddings, paths = made_up(size.sop, (12,))
    x = torch.from_numpy(embeddings)
    before = product_time(x)
    own, _ = timed(lambda: retrieval_metrics(embeddings, paths, whole_list=True))
    product = (before + product_time(x)) / 2
    print(f"sop           {own:9.2f} s   matrix product alone      {product:8.2f} s ", end="")
    print(f"{own / product:7.2f} times as long")
    return missed(("sop", PRODUCT / (own / product), 1.0))


def product_time(x: Tensor) -> float:
    block = 1024
    out = torch.empty(block, len(x))
    began = time.perf_counter()
    for start in range(0, len(x), block):
        part = x[start : start + block]
        torch.mm(part, x.T, out=out[: len(part)])
    return time.perf_counter() - began


def ball(size: Size) -> list[str]:
    embeddings, paths = made_up(size.ball, ())
    embeddings *= (
        0.8 / CURVATURE**0.5 * np.random.default_rng(1).random((len(embeddings), 1)) ** 0.1
    )
    labels, count = paths[:, -1], len(embeddings)

    def score(queries: NDArray[np.bool_] | None = None) -> Metrics:
        return retrieval_metrics(
            embeddings,
            labels,
            geometry="poincare",
            curvature=CURVATURE,
            recall_at=RECALL_AT,
            queries=queries,
        )

    own = min(timed(score)[0] for _ in range(TURNS))
    few = min(size.queries // 2, count)
    part, theirs = timed(lambda: row_loop(embeddings, labels, few, [(k,) for k in RECALL_AT]))
    assert_equal(score(queries=np.arange(count) < few), theirs)
    peer = part * count / few
    once = timed(lambda: row_loop(embeddings, labels, few, [RECALL_AT]))[0] * count / few
    print(
        f"ball          {own:9.2f} s   a query at a time, per k *{peer:8.1f} s {peer / own:7.1f}x"
    )
    print(f"{'':27}a query at a time, once * {once:8.1f} s {once / own:7.1f}x")
    return missed(("ball", peer / own, LOOP))


def row_loop(
    embeddings: NDArray[np.float32], labels: IntArray, queries: int, passes: list[tuple[int, ...]]
) -> Metrics:
    """Recall@k, one query after the other, in passes that each have some of the k."""
    x, classes = torch.from_numpy(embeddings), torch.from_numpy(labels)
    hits = dict.fromkeys(RECALL_AT, 0)
    for wanted in passes:
        for query in range(queries):
            distances = distances_from(x[query : query + 1], x)
            distances[query] = torch.inf
            nearest = distances.topk(max(wanted), largest=False).indices
            relevant = classes[nearest] == classes[query]
            for k in wanted:
                hits[k] += bool(relevant[:k].any())
    return {f"recall_at_{k}": hits[k] / queries for k in RECALL_AT}


def distances_from(query: Tensor, x: Tensor) -> Tensor:
    """Returns (N,): Poincare distances from one point, with the Moebius sums (N, D) written out."""
    c, product = CURVATURE, -(query @ x.T).T
    own, squares = query.square().sum(), x.square().sum(dim=1, keepdim=True)
    moebius = (1 + 2 * c * product + c * squares) * -query + (1 - c * own) * x
    moebius = moebius / (1 + 2 * c * product + c**2 * own * squares)
    lengths: Tensor = torch.linalg.vector_norm(moebius, dim=1)
    return torch.atanh((c**0.5 * lengths).clamp_max(1 - 1e-5)).mul(2 / c**0.5)


def missed(*figures: tuple[str, float, float]) -> list[str]:
    """Returns the names of the figures that are below their target."""
    return [name for name, value, target in figures if value < target]


PARTS = {"flat": flat, "hierarchical": hierarchical, "sop": sop, "ball": ball}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sets, under a minute")
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    below: list[str] = []
    for name in arguments.part or PARTS:
        below += PARTS[name](size)
        sys.stdout.flush()
    print("* scaled from the first queries")
    print(
        f"evaluation: targets flat {PEER:.0f}x and {DEFAULT:.0f}x, hierarchical {SORTED:.0f}x and "
        f"{GIB} GiB, sop {PRODUCT:.0f} times, ball {LOOP:.0f}x; "
        f"missed: {', '.join(below) or 'none'}"
    )
    return int(bool(below) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
