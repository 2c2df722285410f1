"""Where two runs differ: the difference of each benchmark, question by question, and the texts behind it."""

import marimo

app = marimo.App(width="medium", app_title="Disagreements")


@app.cell
def _():
    import altair as alt
    import marimo as mo
    from polars import selectors

    import shaberi_dagster as shaberi
    from shaberi_dagster.util.errors import ConfigurationError

    lake = shaberi.open_lake()
    rounded = selectors.float().round_sig_figs(4)
    return alt, ConfigurationError, lake, mo, rounded


@app.cell
def _(lake, mo):
    runs = lake.sql("select model || '@@' || run_tag as run from answers group by 1 order by count(*) desc, 1")[
        "run"
    ].to_list()
    mo.stop(len(runs) < 2, mo.md("It takes two runs to differ."))  # noqa: PLR2004
    a = mo.ui.dropdown(runs, value=runs[0], label="A", searchable=True)
    b = mo.ui.dropdown(runs, value=runs[1], label="B", searchable=True)
    which = mo.ui.text(value="sort:difference", label="filter, as that of inspect-output")
    mo.vstack([mo.md("# Where two runs differ"), mo.hstack([a, b, which], justify="start")])
    return a, b, which


@app.cell
def _(ConfigurationError, a, alt, b, lake, mo, rounded):
    try:
        report = lake.compare(a.value, b.value)
        differences = report.frame.with_columns(rounded)
    except ConfigurationError as error:
        mo.stop(True, mo.md(str(error)))
    base = alt.Chart().encode(y=alt.Y("benchmark:N", title=None))
    rules = base.mark_rule().encode(x=alt.X("lower:Q", title="A - B, with its interval"), x2="upper:Q")
    points = base.mark_point(filled=True).encode(
        x="difference:Q", color="verdict:N", tooltip=["benchmark", "judge", "n", "difference", "verdict"]
    )
    by_judge = alt.layer(rules, points, data=differences).facet(row=alt.Row("judge:N", title=None))
    mo.vstack([mo.md("## By benchmark (judge null: the mean of all)"), mo.plain_text(report.caveat), by_judge])


@app.cell
def _(ConfigurationError, a, alt, b, lake, mo, rounded, which):
    try:
        questions = lake.questions([a.value, b.value], which.value)
    except ConfigurationError as error:
        mo.stop(True, mo.md(str(error)))
    mo.stop(questions.is_empty() or a.value == b.value, mo.md("No question matches."))
    named = questions.rename({a.value: "A", b.value: "B"}).drop("question_id").with_columns(rounded)
    scatter = (
        alt.Chart(named.select("benchmark", "position", "category", "A", "B", "disagreement"))
        .mark_circle(opacity=0.5)
        .encode(
            x="A:Q", y="B:Q", color="benchmark:N",
            tooltip=["benchmark", "position", "category", "A", "B", "disagreement"],
        )
    )  # fmt: skip
    chosen = mo.ui.table(named, selection="single", page_size=10)
    mo.vstack([mo.md("## By question"), scatter, chosen])
    return (chosen,)


@app.cell
def _(a, b, chosen, lake, mo):
    mo.stop(len(chosen.value) == 0, mo.md("Choose a question to read what was answered."))
    row = chosen.value.row(0, named=True)
    question = lake.question(row["benchmark"], row["position"], question_set=row["question_set"])

    def column(run):
        model, tag = run.split("@@", 1)
        answers, judged = (
            frame.filter((frame["model"] == model) & (frame["run_tag"] == tag))
            for frame in (question["answers"], question["judgements"])
        )
        said = [mo.plain_text(f"{one['judge']} {one['score']}\n{one['judge_output']}") for one in judged.to_dicts()]
        return mo.vstack([mo.md(f"**{run}**"), *[mo.plain_text(one or "") for one in answers["answer"]], *said])

    mo.vstack([mo.plain_text(question["question"]), mo.hstack([column(a.value), column(b.value)], widths="equal")])


if __name__ == "__main__":
    app.run()
