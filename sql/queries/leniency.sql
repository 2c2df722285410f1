-- How much higher than its peers each judge scores the same answers (benchmark overall: all together).
-- $benchmark: benchmark or overall = overall
select
    judge, round(mean_difference, 3) as mean_difference, round(sd, 3) as sd, n_answers,
    round(mean_judges, 2) as mean_judges
from judge_leniency
where benchmark = $benchmark
order by mean_difference desc, judge;
