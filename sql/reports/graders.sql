-- Verdicts of rules by the form that licensed them, with the error of that form on replies that nobody tuned on.
with measured(form, read, wrong, at_most) as (values
    ('answer_colon', 8, 0, 0.312), ('answer_colon_within', 1, 0, 0.950), ('answer_is', 7, 0, 0.348), ('box', 17, 1, 0.250),
    ('chinese', 5, 0, 0.451), ('chosen', 38, 0, 0.076), ('computed', 11, 0, 0.238), ('conclusion', 3, 0, 0.632),
    ('drawn', 11, 1, 0.364), ('emphasised', 8, 0, 0.312), ('final_result', 5, 0, 0.451), ('first_line', 6, 0, 0.393),
    ('ga_seikai', 2, 0, 0.776), ('gives', 1, 0, 0.950), ('hashes', 1, 0, 0.950), ('heading', 3, 0, 0.632),
    ('it_is', 3, 0, 0.632), ('json_field', 5, 0, 0.451), ('kotae_heading', 2, 0, 0.776), ('kotae_wa', 20, 1, 0.216),
    ('last_equation', 2, 0, 0.776), ('last_line', 21, 2, 0.271), ('leaves', 1, 0, 0.950), ('lone_label', 2, 0, 0.776),
    ('lone_letter', 2, 0, 0.776), ('node', 2, 0, 0.776), ('other_answer_is', 8, 0, 0.312), ('other_therefore', 2, 1, 0.975),
    ('restated', 2, 0, 0.776), ('richtig_ist', 1, 0, 0.950), ('sign', 4, 0, 0.527), ('solution_is', 2, 0, 0.776),
    ('starts_with_letter', 5, 0, 0.451), ('starts_with_yes', 11, 0, 0.238), ('stated', 14, 0, 0.193),
    ('statement_is_true', 1, 0, 0.950), ('tag', 3, 0, 0.632), ('therefore', 8, 1, 0.471), ('tick_before', 2, 0, 0.776),
    ('value_is', 2, 0, 0.776), ('whole_reply', 31, 1, 0.144), ('yaml_field', 1, 0, 0.950), ('yotte', 2, 0, 0.776)
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
