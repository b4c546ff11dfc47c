"""Slow multi-label metrics, one image, label and pair at a time, from the definitions."""

import math


def average_precision(scores, labels):
    """Mean over the positives of the precision among all images scored as high or higher."""
    positives = [own for own, label in zip(scores, labels, strict=True) if label]
    if not positives:
        return math.nan
    total = 0.0
    for own in positives:
        listed = [label for other, label in zip(scores, labels, strict=True) if other >= own]
        total += sum(listed) / len(listed)
    return total / len(positives)


def predictions(row, threshold, k):
    """The numbers of the labels of one image that are predicted."""
    order = sorted(range(len(row)), key=lambda label: (-row[label], label))
    return {label for label in order[:k] if row[label] >= threshold}


def f1(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def counted(scores, labels, threshold, k, suffix):
    num_labels = len(scores[0])
    correct, predicted, positive = ([0] * num_labels for _ in range(3))
    for row, marks in zip(scores, labels, strict=True):
        chosen = predictions(row, threshold, k)
        for label in range(num_labels):
            predicted[label] += label in chosen
            positive[label] += bool(marks[label])
            correct[label] += label in chosen and bool(marks[label])
    predicted = [max(1, count) for count in predicted]
    known = [label for label in range(num_labels) if positive[label]]
    cp = sum(correct[label] / predicted[label] for label in range(num_labels)) / num_labels
    cr = sum(correct[label] / positive[label] for label in known) / len(known)
    op, recall = sum(correct) / sum(predicted), sum(correct) / sum(positive)
    found = {"cp": cp, "cr": cr, "cf1": f1(cp, cr)}
    found |= {"op": op, "or": recall, "of1": f1(op, recall)}
    return {name + suffix: value for name, value in found.items()}


def metrics(scores, labels, threshold, k):
    num_labels = len(scores[0])
    columns = [([row[t] for row in scores], [row[t] for row in labels]) for t in range(num_labels)]
    precisions = [average_precision(*column) for column in columns]
    known = [value for value in precisions if not math.isnan(value)]
    return {
        "map": sum(known) / len(known),
        **counted(scores, labels, threshold, num_labels, ""),
        **counted(scores, labels, threshold, k, f"_top_{k}"),
    }


def label_retrieval(embeddings, labels, at):
    """Precision and recall at every k, from all pairs of embeddings."""
    lengths = [math.hypot(*row) for row in embeddings]
    sums: dict[str, float] = {}
    queries = 0
    for own, row in enumerate(embeddings):
        others = [other for other in range(len(embeddings)) if other != own]
        relevant = sum(labels[other] == labels[own] for other in others)
        if not relevant:
            continue
        queries += 1
        cosine = {
            other: sum(a * b for a, b in zip(row, embeddings[other], strict=True))
            / lengths[own]
            / lengths[other]
            for other in others
        }
        ranked = sorted(others, key=lambda other: (-cosine[other], other))
        for k in at:
            hits = sum(labels[other] == labels[own] for other in ranked[:k])
            for name, share in (
                (f"label_precision_at_{k}", hits / len(ranked[:k])),
                (f"label_recall_at_{k}", hits / min(k, relevant)),
            ):
                sums[name] = sums.get(name, 0.0) + share
    return {name: value / queries for name, value in sums.items()}
