"""Judges: how far they agree, how lenient they are, and how often they give no score."""

import marimo

app = marimo.App(width="medium", app_title="Judges")


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
    names = lake.sql("select distinct benchmark from leaderboard order by 1")["benchmark"].to_list()
    benchmark = mo.ui.dropdown(names, value=names[0], label="benchmark")
    measure = mo.ui.dropdown(["pearson", "spearman", "exact_share"], value="pearson", label="agreement")
    mo.vstack([mo.md("# Judges"), mo.hstack([benchmark, measure], justify="start")])
    return benchmark, measure


@app.cell
def _(alt, benchmark, lake, measure, mo, rounded):
    pairs = lake.sql(
        "from judge_agreement where benchmark = $benchmark"
        " union all by name"
        " select * replace (judge_b as judge_a, judge_a as judge_b, -mean_difference as mean_difference)"
        " from judge_agreement where benchmark = $benchmark",
        benchmark=benchmark.value,
    ).with_columns(rounded)
    mo.stop(pairs.is_empty(), mo.md("No two judges scored the same answers of this benchmark."))
    heat = alt.Chart(pairs).encode(x=alt.X("judge_a:N", title=None), y=alt.Y("judge_b:N", title=None))
    cells = heat.mark_rect().encode(
        color=alt.Color(f"{measure.value}:Q", scale=alt.Scale(domain=[0, 1])),
        tooltip=["judge_a", "judge_b", "n", "pearson", "spearman", "exact_share", "mean_difference"],
    )
    numbers = heat.mark_text().encode(text=alt.Text(f"{measure.value}:Q", format=".2f"))
    mo.vstack(
        [mo.md("## Agreement on the answers that both scored"), (cells + numbers).properties(width=360, height=360)]
    )


@app.cell
def _(alt, lake, mo, rounded):
    leniency = lake.sql("from judge_leniency order by judge, benchmark").with_columns(rounded)
    mo.stop(leniency.is_empty(), mo.md("Leniency takes two judges of the same answers."))
    bars = (
        alt.Chart(leniency)
        .mark_bar()
        .encode(
            x=alt.X("mean_difference:Q", title="leniency: mean difference from all judges of the same answers"),
            y=alt.Y("judge:N", title=None), row=alt.Row("benchmark:N", title=None),
            tooltip=["judge", "benchmark", "mean_difference", "sd", "n_answers"],
        )
    )  # fmt: skip
    mo.vstack([mo.md("## Leniency"), bars])


@app.cell
def _(lake, mo, rounded):
    mo.vstack(
        [
            mo.md("## Krippendorff's alpha, and judgements without a score"),
            mo.ui.table(lake.sql("from judge_alpha order by benchmark").with_columns(rounded)),
            mo.ui.table(lake.sql("null_rates_of_judges").with_columns(rounded)),
        ]
    )


if __name__ == "__main__":
    app.run()
