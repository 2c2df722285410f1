-- How much higher than its peers a judge scores: its mean difference, on the reported scale, from the mean of all
-- judges of the same answer, itself included; only answers with two judges or more count. Benchmark overall: all
-- answers together. mean_judges tells how many judges that mean is over.
create view judge_leniency as
with differences as (
    select benchmark, unnest(scores) as given, mean, n_judges
    from scores_by_answer
    where n_judges > 1
)
select
    given.judge as judge,
    coalesce(benchmark, 'overall') as benchmark,
    avg(given.score - mean) as mean_difference,
    stddev_samp(given.score - mean) as sd,
    count(*) as n_answers,
    avg(n_judges) as mean_judges
from differences
group by grouping sets ((given.judge, benchmark), (given.judge));
