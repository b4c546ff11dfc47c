"""Time and memory of the evaluation beside the ways in which it is done elsewhere.

flat          P@1, R-precision and MAP@R of one level against pytorch-metric-learning's calculator,
              with lists as long as the largest class (k="max_bin_count") and with its default
hierarchical  all metrics of three levels against a full sort of every row and a loop over rows and
              their levels, which is the structure of HAPPIER's evaluator
sop           all metrics at the size of Stanford Online Products' test set, two levels, as a
              multiple of the matrix product alone, in blocks of 1,024 queries
ball          recall@k by the Poincare distance against a loop over queries, once for every k,
              which is the structure of HIER's evaluator; a loop for all k at once takes a quarter

What a peer would need minutes or more for is measured on the first queries and scaled; on those
queries it must give the same numbers. Peak memory is that of a process that does nothing else, its
imports included.
"""

import argparse
import multiprocessing
import statistics
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
SORTED_TOGETHER = 120  # rows
PEER, DEFAULT, SORTED, PRODUCT, LOOP = 1.0, 20.0, 10.0, 3.0, 100.0
NOISE = 0.05  # by which two timings of the same code differ
GIB = 1.5


@dataclass(frozen=True)
class Size:
    """Images and dimensions of each part, and how many queries scaled peers get."""

    flat: tuple[int, int]
    sop: tuple[int, int]
    ball: tuple[int, int]
    queries: int


FULL = Size((24_000, 128), (60_502, 512), (12_000, 128), 480)
QUICK = Size((1_200, 32), (1_500, 64), (600, 32), 120)


def made_up(size: tuple[int, int], labels: tuple[int, ...]) -> tuple[NDArray[np.float32], IntArray]:
    """Returns unit embeddings (N, D) and label paths: so many labels of each coarser level."""
    count, dim = size
    rng = np.random.default_rng(0)
    fine = rng.permutation(np.arange(count) // PER_CLASS)
    classes = int(fine.max()) + 1
    columns, vectors = [fine], rng.normal(size=(classes, dim))[fine]
    for number in reversed(labels):
        # Uneven groups: the largest has about twice as many classes as the mean.
        edges = np.sort(rng.choice(int(columns[0].max()), number - 1, replace=False))
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
    return missed(("flat", ratio, PEER - NOISE), ("flat default", default / own, DEFAULT))


def full_sort(embeddings: NDArray[np.float32], paths: IntArray, queries: int) -> Metrics:
    """H-AP, ASI, NDCG and AP of every level: rows sorted whole, then one row after the other."""
    x, labels = torch.from_numpy(embeddings), torch.from_numpy(paths)
    depth = paths.shape[1]
    found: dict[str, list[float]] = {}
    for query in range(queries):
        if query % SORTED_TOGETHER == 0:
            block = x[query : min(query + SORTED_TOGETHER, queries)]
            orders = (block @ x.T).argsort(dim=1, descending=True)
        order = orders[query % SORTED_TOGETHER]
        order = order[order != query]
        levels = (labels[order] == labels[query]).sum(dim=1)
        for name, value in row_metrics(levels, depth).items():
            found.setdefault(name, []).append(value)
    return {name: statistics.fmean(values) for name, values in found.items()}


def row_metrics(levels: Tensor, depth: int) -> dict[str, float]:
    ranks = torch.arange(1, len(levels) + 1, dtype=torch.float64)
    sizes = [int((levels == level).sum()) + (level == depth) for level in range(depth + 1)]
    relevance = torch.zeros(len(levels), dtype=torch.float64)
    for level in range(1, depth + 1):
        relevance[levels == level] = level / depth / max(sizes[level], 1)
    ahead = torch.zeros_like(relevance)
    for value in torch.tensor(sorted(set(relevance.tolist())), dtype=torch.float64):
        counted = torch.minimum(relevance, value).cumsum(0)
        ahead = torch.where(relevance == value, counted, ahead)
    found = {"h_ap": float((ahead / ranks)[relevance > 0].sum() / relevance.sum())}
    ideal = levels.sort(descending=True).values
    total = int((levels > 0).sum())
    both = torch.zeros(total, dtype=torch.float64)
    for level in range(1, depth + 1):
        both += torch.minimum(
            (levels == level).cumsum(0)[:total], (ideal == level).cumsum(0)[:total]
        )
    found["h_asi"] = float((both / ranks[:total]).mean())
    gains = [(2.0**order - 1.0) / torch.log2(1.0 + ranks) for order in (levels, ideal)]
    found["h_ndcg"] = float(gains[0].sum() / gains[1].sum())
    for level in range(1, depth + 1):
        hits = levels >= level
        precision = hits.cumsum(0) / ranks
        prefix = "" if level == depth else f"level_{level - 1}/"
        found[f"{prefix}ap"] = float(precision[hits].mean())
    return found


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
    own, _ = timed(lambda: retrieval_metrics(embeddings, paths, whole_list=True))
    few = min(size.queries, count)
    part, theirs = timed(lambda: full_sort(embeddings, paths, few))
    first = np.arange(count) < few
    assert_equal(retrieval_metrics(embeddings, paths, queries=first, whole_list=True), theirs)
    peer = part * count / few
    memory = peak_memory(size is QUICK)
    print(
        f"hierarchical  {own:9.2f} s   sorted rows, one by one * {peer:8.1f} s {peer / own:7.1f}x"
    )
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
    part, theirs = timed(lambda: row_loop(embeddings, labels, few))
    assert_equal(score(queries=np.arange(count) < few), theirs)
    peer = part * count / few
    print(
        f"ball          {own:9.2f} s   one query by one *        {peer:8.1f} s {peer / own:7.1f}x"
    )
    return missed(("ball", peer / own, LOOP))


def row_loop(embeddings: NDArray[np.float32], labels: IntArray, queries: int) -> Metrics:
    """Recall@k as HIER's evaluator has it: for every k, one query after the other."""
    x, classes = torch.from_numpy(embeddings), torch.from_numpy(labels)
    found = {}
    for k in RECALL_AT:
        hits = 0
        for query in range(queries):
            distances = distances_from(x[query : query + 1], x)
            distances[query] = torch.inf
            nearest = distances.topk(k, largest=False).indices
            hits += bool((classes[nearest] == classes[query]).any())
        found[f"recall_at_{k}"] = hits / queries
    return found


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
