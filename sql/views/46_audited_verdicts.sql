-- Verdicts of rules in force that an audit has drawn and graded, with what turned out: a person's verdict counts over the
-- model's, and an answer that is not right is wrong, be there an answer or none.
create view audited_verdicts as
with drawn as (
    select
        run_id, model, run_tag, benchmark, question_id, sample_index, strategy, answer_hash, judge, judge_config_hash,
        any_value(rule_version) as rule_version, any_value(form) as form,
        max(inclusion_probability) as inclusion_probability,
        arg_max(auditor, created_at) as auditor, arg_max(verdict, created_at) as model_verdict, max(created_at) as audited_at
    from lake.audits
    where status = 'ok' and not by_person
    group by all
),
settled as (
    select benchmark, question_id, answer_hash, arg_max(verdict, created_at) as person_verdict
    from lake.audits
    where by_person
    group by all
),
in_force as (
    select run_id, benchmark, question_id, sample_index, strategy, answer_hash, judge, judge_config_hash, score
    from lake.judgements
    where score_source = 'rule' and status = 'ok' and not superseded and run_id in (select run_id from drawn)
)
select
    drawn.*, 1 / inclusion_probability as weight, person_verdict,
    case when score = 1 then 'right' else 'wrong' end as rule_verdict,
    coalesce(person_verdict, model_verdict) = 'right' as is_right,
    case when score <> 1 and is_right then 'false wrong' when score = 1 and not is_right then 'false right' end as error,
    error is not null and person_verdict is null as is_unsettled
from drawn
join in_force
  on in_force.run_id = drawn.run_id and in_force.benchmark = drawn.benchmark and in_force.question_id = drawn.question_id
 and in_force.sample_index = drawn.sample_index and in_force.strategy is not distinct from drawn.strategy
 and in_force.answer_hash = drawn.answer_hash and in_force.judge = drawn.judge
 and in_force.judge_config_hash = drawn.judge_config_hash
left join settled
  on settled.benchmark = drawn.benchmark and settled.question_id = drawn.question_id
 and settled.answer_hash = drawn.answer_hash;
