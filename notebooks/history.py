"""One model over time: its runs, their scores, and what they cost."""

import marimo

app = marimo.App(width="medium", app_title="History")


@app.cell
def _():
    import altair as alt
    import marimo as mo
    from polars import selectors

    import shaberi_dagster as shaberi

    lake = shaberi.open_lake()
    rounded = selectors.float().round_sig_figs(4)
    return alt, lake, mo, rounded


@app.cell
def _(lake, mo):
    models = lake.sql("select model from leaderboard group by 1 order by count(distinct run_tag) desc, 1")[
        "model"
    ].to_list()
    mo.stop(not models, mo.md("Nothing is scored yet."))
    chosen = mo.ui.multiselect(models, value=models[:3], label="models")
    mo.vstack([mo.md("# Over time"), chosen])
    return (chosen,)


@app.cell
def _(alt, chosen, lake, mo, rounded):
    mo.stop(not chosen.value, mo.md("Choose a model."))
    scores = lake.sql(
        "select model, run_tag, benchmark, judge, score, n_scored, n_planned, runs.created_at as at"
        " from leaderboard join runs using (run_id, model, run_tag)"
        " where list_contains($models, model) and pipeline = 'baseline' and strategy is null",
        models=chosen.value,
    ).with_columns(rounded)
    lines = (
        alt.Chart(scores)
        .mark_line(point=True)
        .encode(
            x=alt.X("at:T", title="run"), y=alt.Y("score:Q", scale=alt.Scale(zero=False)),
            color="model:N", strokeDash="judge:N", row=alt.Row("benchmark:N", title=None),
            tooltip=["model", "run_tag", "benchmark", "judge", "score", "n_scored", "n_planned"],
        )
        .properties(height=120)
    )  # fmt: skip
    mo.vstack([lines, mo.ui.table(scores)])


@app.cell
def _(alt, chosen, lake, mo, rounded):
    cost = lake.cost(models=chosen.value).with_columns(rounded)
    mo.stop(cost.is_empty(), mo.md("These runs made no calls (they are imported)."))
    bars = (
        alt.Chart(cost)
        .mark_bar()
        .encode(
            x=alt.X("sum(calls):Q", title="calls"), y=alt.Y("run_tag:N", title=None),
            color="stage:N", row=alt.Row("model:N", title=None),
        )
    )  # fmt: skip
    mo.vstack([mo.md("## What it took"), bars, mo.ui.table(cost)])


if __name__ == "__main__":
    app.run()
