-- The curve of a decision.
from decision_looks
where decision_id = $decision_id
order by n_asked, created_at, a, b
