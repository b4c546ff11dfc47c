"""Leaderboards as LaTeX tables, for the package booktabs."""

from hsearch.report.telling import (
    against_words,
    columns,
    number_words,
    p_words,
    verdict_words,
)
from hsearch.report.values import (
    Comparison,
    Estimate,
    Floor,
    Leaderboard,
    RankTable,
    Row,
    Table,
)

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        **{each: f"\\{each}" for each in "&%$#_{}"},
    }
)


def escaped(text: str) -> str:
    """Returns text that LaTeX prints as it is."""
    return text.translate(_ESCAPES)


def latex(comparison: Comparison) -> str:
    """Returns one `table` per leaderboard and kind, and one of ranks, with the best in bold."""
    parts = [_table(board, table) for board in comparison.leaderboards for table in board.tables]
    parts += [_ranks(table) for table in comparison.ranks]
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(parts)


def _table(board: Leaderboard, table: Table) -> str:
    heads = [escaped(head) for head in columns(board)]
    _, score, *_, behind, runs, queries, group, beats = heads
    heads = ["method", f"{score} (95 \\% CI)", behind, runs, queries, group, beats]
    lines = [_line(*heads), r"\midrule"]
    lines += [_row(table, row, best=number == 0) for number, row in enumerate(table.rows)]
    if table.floors:
        lines.append(r"\midrule")
    lines += [_floor(table, floor) for floor in table.floors]
    caption = (
        f"{board.data}, {board.protocol} protocol, {board.splits} splits, {table.kind} embeddings. "
        f"{verdict_words(table)} Methods that share a letter cannot be told apart. "
        f"{against_words(table)}"
    )
    return _float("llrrrll", lines, caption)


def _row(table: Table, row: Row, *, best: bool) -> str:
    pair = table.to_best(row)
    behind = number_words(pair.difference.mean) if pair and pair.difference else ""
    ps = [p_words(pair.p_runs), p_words(pair.p_queries)] if pair else ["", ""]
    name, score = escaped(row.name), _score(row.score)
    if best:
        name, score = rf"\textbf{{{name}}}", rf"$\mathbf{{{score}}}$"
    else:
        score = f"${score}$"
    return _line(name, score, behind, *map(_p, ps), row.group, row.against_floor.better)


def _floor(table: Table, floor: Floor) -> str:
    found = table.best_against(floor)
    behind = number_words(found.difference.mean) if found and found.difference else ""
    ps = [p_words(found.p_runs), p_words(found.p_queries)] if found else ["", ""]
    score = f"${number_words(floor.score)}$"
    return _line(escaped(floor.name), score, behind, *map(_p, ps), "", "")


def _p(words: str) -> str:
    return f"${words}$" if words.startswith("<") else words


def _score(estimate: Estimate) -> str:
    if estimate.low is None:
        return number_words(estimate.mean)
    return rf"{number_words(estimate.mean)} \pm {number_words(estimate.mean - estimate.low)}"


def _ranks(table: RankTable) -> str:
    lines = [_line("method", "mean rank"), r"\midrule"]
    lines += [_line(escaped(name), f"{rank:.2f}") for name, rank in table.ranks.items()]
    caption = (
        f"Mean ranks over {', '.join(table.data)} ({table.kind} embeddings); Nemenyi's critical "
        f"difference is {table.critical_difference:.2f}, Friedman's p {p_words(table.friedman_p)}."
    )
    return _float("lr", lines, caption)


def _line(*cells: str) -> str:
    return " & ".join(cells) + r" \\"


def _float(align: str, lines: list[str], caption: str) -> str:
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped(caption)}}}",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
