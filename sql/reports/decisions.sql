-- One decision, or all of them, the one that changed last first; each with its curve: what was known of each pair after some
-- questions.
select
    decisions.*,
    coalesce((
        select list({
            'n_asked': n_asked, 'a': a, 'b': b, 'n_scored': n_scored, 'estimate': estimate, 'lower': lower, 'upper': upper,
            'verdict': verdict
        } order by n_asked, looks.created_at, a, b)
        from decision_looks as looks
        where looks.decision_id = decisions.decision_id
    ), []) as curve
from decisions
where $decision_id is null or decision_id = $decision_id
order by updated_at desc, decision_id
