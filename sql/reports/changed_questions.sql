-- Of how many questions two versions of a set have the same text, but another reference, rubric or options; by benchmark.
select benchmark, count(*) as n
from (select distinct unnest($benchmarks) as benchmark, unnest($first) as first_set, unnest($second) as second_set)
join questions as one using (benchmark)
join questions as other using (benchmark, question_id)
where one.question_set = first_set
  and other.question_set = second_set
  and row(one.reference, one.criteria, one.options, one.aliases)
      is distinct from row(other.reference, other.criteria, other.options, other.aliases)
group by all
order by all
