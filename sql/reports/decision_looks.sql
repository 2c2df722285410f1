-- The curve of a decision: what was known of each pair after some questions.
select n_asked, a, b, n_scored, estimate, lower, upper, verdict
from decision_looks
where decision_id = $decision_id
order by n_asked, created_at, a, b
