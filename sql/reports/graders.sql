-- Verdicts of rules by the form that licensed them, with the error of that form on replies that no rule was tuned on.
with measured(form, read, wrong, at_most) as (values
    ('answer_bare', 1, 0, 0.950), ('answer_colon', 12, 0, 0.221), ('answer_colon_within', 1, 0, 0.950),
    ('answer_is', 14, 0, 0.193), ('box', 35, 1, 0.129), ('chinese', 7, 0, 0.348), ('chosen', 67, 0, 0.044),
    ('computed', 15, 0, 0.181), ('conclusion', 3, 0, 0.632), ('drawn', 19, 1, 0.226), ('emphasised', 8, 0, 0.312),
    ('final_result', 10, 0, 0.259), ('first_line', 8, 0, 0.312), ('ga_seikai', 3, 0, 0.632), ('gives', 1, 0, 0.950),
    ('hashes', 4, 0, 0.527), ('heading', 5, 0, 0.451), ('it_is', 3, 0, 0.632), ('json_field', 10, 0, 0.259),
    ('korean', 1, 0, 0.950), ('kotae_heading', 5, 0, 0.451), ('kotae_wa', 36, 0, 0.080), ('last_equation', 2, 0, 0.776),
    ('last_line', 29, 2, 0.202), ('leaves', 1, 0, 0.950), ('lone_label', 3, 0, 0.632), ('lone_letter', 2, 0, 0.776),
    ('node', 3, 0, 0.632), ('other_answer_is', 15, 0, 0.181), ('other_therefore', 3, 1, 0.865), ('restated', 2, 0, 0.776),
    ('richtig_ist', 2, 0, 0.776), ('sign', 5, 0, 0.451), ('solution_is', 4, 0, 0.527), ('starts_with_letter', 8, 0, 0.312),
    ('starts_with_yes', 11, 0, 0.238), ('stated', 21, 0, 0.133), ('statement_is_true', 1, 0, 0.950), ('tag', 5, 0, 0.451),
    ('therefore', 11, 1, 0.364), ('tick_before', 2, 0, 0.776), ('value_is', 2, 0, 0.776), ('whole_reply', 45, 1, 0.101),
    ('yaml_field', 1, 0, 0.950), ('yotte', 3, 0, 0.632)
), verdicts as (
    select
        run_id, split_part(judge, '+', 1) as judge, regexp_extract(judge_output, '^(\w+) \[\d+:\d+\]: ', 1) as form, score
    from judgements
    where score_source = 'rule' and not superseded
      and ($run_ids is null or list_contains($run_ids, run_id))
      and run_id in (from selected_runs($models, $tags, $sources))
), audited as (
    select
        judge, coalesce(form, '') as form, count(*) as n_audited, count(error) as n_wrong,
        count(*) filter (is_unsettled) as n_unsettled, sum(weight) as weight, max(weight) as heaviest,
        coalesce(sum(weight) filter (error = 'false right'), 0) as false_rights,
        coalesce(sum(weight) filter (error = 'false wrong'), 0) as false_wrongs,
        coalesce(sum(weight) filter (is_unsettled), 0) as unsettled
    from audited_verdicts
    where run_id in (select run_id from verdicts)
    group by all
)
select
    judge, coalesce(nullif(form, ''), 'not recorded') as form, count(*) as verdicts, count(*) filter (score = 1) as right,
    any_value(read)::integer as corpus_read, any_value(wrong)::integer as corpus_wrong, any_value(at_most)::double as at_most,
    audited.* exclude (judge, form)
from verdicts left join measured using (form) left join audited using (judge, form)
group by all
order by judge, verdicts desc, form
