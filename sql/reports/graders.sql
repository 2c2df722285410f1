-- Verdicts of rules by the form that licensed them, with the error of that form on replies that nobody tuned on.
with measured(form, read, wrong, at_most) as (values
    ('answer_colon', 15, 0, 0.181), ('answer_colon_within', 1, 0, 0.950), ('answer_is', 18, 0, 0.153),
    ('box', 17, 1, 0.250), ('chinese', 3, 0, 0.632), ('choose', 3, 0, 0.632), ('computed', 14, 0, 0.193),
    ('conclusion', 3, 0, 0.632), ('drawn', 12, 1, 0.339), ('emphasised', 8, 0, 0.312), ('final_result', 5, 0, 0.451),
    ('first_line', 5, 0, 0.451), ('ga_seikai', 3, 0, 0.632), ('gives', 1, 0, 0.950), ('hashes', 1, 0, 0.950),
    ('heading', 3, 0, 0.632), ('is_correct', 3, 0, 0.632), ('it_is', 3, 0, 0.632), ('json_field', 5, 0, 0.451),
    ('kotae_wa', 21, 0, 0.133), ('last_equation', 2, 0, 0.776), ('last_line', 21, 2, 0.271), ('leaves', 1, 0, 0.950),
    ('lone_letter', 4, 0, 0.527), ('node', 2, 0, 0.776), ('other_answer_is', 8, 0, 0.312),
    ('other_therefore', 1, 0, 0.950), ('restated', 3, 0, 0.632), ('richtig_ist', 1, 0, 0.950), ('sign', 4, 0, 0.527),
    ('solution_is', 2, 0, 0.776), ('starts_with_letter', 5, 0, 0.451), ('starts_with_yes', 11, 0, 0.238),
    ('stated', 15, 1, 0.279), ('statement_is_true', 1, 0, 0.950), ('tag', 5, 0, 0.451), ('therefore', 10, 1, 0.394),
    ('tick_before', 2, 0, 0.776), ('unannounced', 6, 2, 0.729), ('value_is', 2, 0, 0.776),
    ('whole_reply', 28, 1, 0.159), ('yaml_field', 1, 0, 0.950), ('yotte', 2, 0, 0.776)
), verdicts as (
    select
        run_id, split_part(judge, '+', 1) as judge, regexp_extract(judge_output, '^(\w+) \[\d+:\d+\]: ', 1) as form, score
    from judgements
    where score_source = 'rule' and not superseded
      and ($run_ids is null or list_contains($run_ids, run_id))
      and ($models is null or list_contains($models, model))
      and (
          $tags is null or list_contains($tags, run_tag)
          or run_id in (select run_id from runs where list_contains($tags, base_tag)) or run_id in (from imported_runs($tags, null))
      )
      and ($sources is null or run_id in (from imported_runs(null, $sources)))
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
