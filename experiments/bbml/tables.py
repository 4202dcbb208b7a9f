"""Tables 2 and 3, and Figures 4 and 5 (left): how well the sixteen's counts are learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calib.block_counts import Split, split
from experiments.bbml import drawing
from experiments.bbml.applications import APPLICATIONS, counted, paper
from experiments.bbml.evaluation import How, Scores, score, scores
from experiments.reproduction import Case, Figure

SOURCE = (
    "BB-ML, Tables 2 and 3. Squared errors are of counts divided by each block's largest count in all"
    " samples, averaged over blocks; the paper does not say by what it divides"
)
SHARES = (0.05, 0.1, 0.2, 0.4, 0.7)
"""Of the samples that are trained on, in Figure 5 (left); the last leaves the test samples."""
WAYS: dict[How, str] = {"network": "the paper's network", "chosen": "chosen by cross-validation"}


def table_2(out: Path, quick: bool) -> Figure:
    """Inputs drawn from the same range."""
    return _table("table-2", "Table 2: random inputs", ["random"], quick)


def table_3(out: Path, quick: bool) -> Figure:
    """Inputs above all that were trained on."""
    return _table("table-3", "Table 3: high inputs", ["mixed", "high-low"], quick)


def _table(name: str, title: str, splits: list[Split], quick: bool) -> Figure:
    cases: list[Case] = []
    findings = []
    for how in splits:
        means: dict[How, list[float]] = {way: [] for way in WAYS}
        theirs = []
        for application, said in paper().items():
            row = said.random if how == "random" else said.high
            theirs.append(1 - row["mse"])
            for way in WAYS:
                found = scores(application, how, way, quick)
                means[way].append(found.accuracy)
                cases += _cases(name, application, how, way, found, row)
        for way, words in WAYS.items():
            cases.append(
                Case(
                    figure=name, case=f"mean of sixteen, {how}", quantity=f"accuracy, {way}", unit="%",
                    reference=100 * float(np.mean(theirs)), ours=100 * float(np.mean(means[way])),
                )
            )  # fmt: skip
            better = sum(m >= t for m, t in zip(means[way], theirs, strict=True))
            findings.append(
                f"{how}: {words} has a mean accuracy of {100 * np.mean(means[way]):.2f} % where the"
                f" paper's table has {100 * np.mean(theirs):.2f} %; it is at least the paper's in"
                f" {better} of 16, worst {100 * min(means[way]):.2f} %."
            )
    findings.append(
        "The exact path has an error of 0 in all of these (see exact); what is learned here is what"
        " need not be."
    )
    return Figure(name=name, title=title, source=SOURCE, cases=cases, findings=findings)


def _cases(
    name: str, application: str, how: Split, way: How, found: Scores, row: dict[str, float] | object
) -> list[Case]:
    assert hasattr(row, "__getitem__")
    case = f"{application}, {how}, {way}"
    note = ", ".join(f"{kind} {n}" for kind, n in sorted(found.kinds.items()))
    values = {"mse": found.mse, "pearson": found.pearson, "spearman": found.spearman}
    return [
        Case(
            figure=name, case=case, quantity=quantity, unit="", reference=row[quantity],
            ours=None if np.isnan(value) else value, note=note if quantity == "mse" else "",
        )
        for quantity, value in values.items()
    ]  # fmt: skip


def figure_4(out: Path, quick: bool) -> Figure:
    """Predicted against actual counts of high inputs, all blocks of each application."""
    pictures = []
    cases = []
    for way, words in WAYS.items():
        found = {name: scores(name, "mixed", way, quick) for name in APPLICATIONS}
        pictures.append(drawing.heatmaps(out / f"figure-4-{way}.png", words, found))
        near = [float((np.abs(s.predicted - s.actual) <= 0.05).mean()) for s in found.values()]
        cases.append(
            Case(
                figure="figure-4", case=words, quantity="within 5 % of the largest", unit="% of counts",
                reference=None, ours=100 * float(np.mean(near)),
                note="mean over the sixteen; the paper shows heat maps without numbers",
            )
        )  # fmt: skip
    return Figure(
        name="figure-4",
        title="Figure 4: counts at high inputs, predicted against actual",
        source="BB-ML, Figure 4 (trained on low and mixed inputs)",
        cases=cases,
        findings=["Points on the diagonal are right; counts are divided by each block's largest."],
        pictures=pictures,
    )


def figure_5_left(out: Path, quick: bool) -> Figure:
    """Accuracy on the same test samples when trained on a part of the others."""
    curves: dict[How, dict[str, list[float]]] = {way: {} for way in WAYS}
    sizes: dict[str, list[int]] = {}
    cases = []
    for name in APPLICATIONS:
        given = counted(name, quick)
        trained, tested = split(given, "random")
        scale = given.counts.max(axis=0)
        least = 10 * (len(given.names) + 2) + 1
        counts = [max(round(share * len(given)), least) for share in SHARES]
        sizes[name] = sorted({min(n, len(trained)) for n in counts})
        for way in WAYS:
            curves[way][name] = [
                score(trained.rows(slice(0, n)), tested, scale, way, "within").accuracy
                for n in sizes[name]
            ]
            first, last = curves[way][name][0], curves[way][name][-1]
            cases.append(
                Case(
                    figure="figure-5-left", case=f"{name}, {way}", quantity="accuracy", unit="%",
                    reference=None, ours=100 * last,
                    note=f"{100 * first:.2f} % from {sizes[name][0]} samples,"
                    f" this from {sizes[name][-1]}",
                )
            )  # fmt: skip
    picture = drawing.by_sample_size(out / "figure-5-left.png", curves, sizes, WAYS)
    grows = sum(c[-1] > c[0] for c in curves["network"].values())
    return Figure(
        name="figure-5-left",
        title="Figure 5 (left): accuracy against samples trained on",
        source="BB-ML, Figure 5 (left), which has no numbers; as many samples as a model has"
        " parameters are the least",
        cases=cases,
        findings=[
            f"The network gains from more samples in {grows} of 16: with 300 epochs in batches of 10 at a"
            " rate of 1e-4, samples are also steps of training.",
            "What cross-validation chooses is as good from the smallest part.",
        ],
        pictures=[picture],
    )
