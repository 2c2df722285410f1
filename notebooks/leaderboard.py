"""Who is best: means with their intervals, benchmarks beside each other, and how scores are spread."""

import marimo

app = marimo.App(width="medium", app_title="Leaderboard")


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
    policy = mo.ui.dropdown(["legacy", "zero", "strict"], value="legacy", label="null policy")
    judges = mo.ui.multiselect(lake.sql("select distinct judge from leaderboard order by 1")["judge"], label="judges")
    tags = mo.ui.multiselect(lake.sql("select distinct base_tag from runs order by 1")["base_tag"], label="tags")
    mo.vstack([mo.md("# Leaderboard"), mo.hstack([policy, judges, tags], justify="start")])
    return judges, policy, tags


@app.cell
def _(judges, lake, mo, policy, tags):
    report = lake.scores(judges=judges.value, tags=tags.value, null_policy=policy.value)
    standings = report.ranking_frame
    mo.stop(standings.is_empty(), mo.md("Nothing can be ranked: no two parts compare."))
    rankings = standings["ranking"].unique(maintain_order=True).to_list()
    ranking = mo.ui.dropdown(rankings, value=rankings[0], label="judges and questions")
    ranking
    return ranking, report, standings


@app.cell
def _(alt, mo, ranking, rounded, standings):
    chosen = standings.filter(standings["ranking"] == ranking.value).drop("ranking").with_columns(rounded)
    model = alt.Y("model:N", sort=alt.EncodingSortField("mean", order="descending"), title=None)
    base = alt.Chart(chosen).encode(y=model)
    intervals = base.mark_rule().encode(x=alt.X("lower:Q", title="mean, 95 % CI over questions"), x2="upper:Q")
    means = base.mark_point(filled=True, size=70).encode(
        x=alt.X("mean:Q", scale=alt.Scale(zero=False)),
        color=alt.condition("datum.rank == 1", alt.value("green"), alt.value("gray")),
        tooltip=["rank", "model", "tag", "mean", "lower", "upper", "against_best", "difference", "n_common"],
    )  # fmt: skip
    mo.vstack([intervals + means, mo.md("Green: no difference from the best is shown."), mo.ui.table(chosen)])


@app.cell
def _(alt, mo, report, rounded):
    columns = ["model", "run_tag", "judge", "benchmark", "score", "n_scored", "n_planned"]
    by_benchmark = report.frame.select(columns).with_columns(rounded)
    heat = (
        alt.Chart(by_benchmark)
        .mark_rect()
        .encode(
            x=alt.X("benchmark:N", title=None), y=alt.Y("model:N", title=None),
            color=alt.Color("mean(score):Q", title="score"),
            tooltip=["model", "benchmark", alt.Tooltip("mean(score):Q", format=".2f")],
        )
    )  # fmt: skip
    mo.vstack([mo.md("## Benchmarks (mean over runs and judges)"), heat])


@app.cell
def _(alt, lake, mo, policy):
    counts = lake.sql(
        "select benchmark, judge, round(reported_score) as score, count(*) as answers from evidence"
        " where strategy is null and reported_score is not null group by all"
    )
    spread = (
        alt.Chart(counts)
        .mark_bar()
        .encode(x=alt.X("score:O"), y=alt.Y("answers:Q"), color="benchmark:N", column=alt.Column("judge:N", title=None))
        .properties(width=180, height=120)
    )
    mo.vstack([mo.md(f"## How judges use their scale (policy {policy.value} matters only for means)"), spread])


if __name__ == "__main__":
    app.run()
