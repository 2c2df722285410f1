-- selected_runs(models, tags, sources): the runs of one of these models, with one of these tags, from one of these trees;
-- null is any. A tag is that of the run, its base tag, `TAG-run*` of numbered runs, or the tag of its import. A model can
-- be MODEL@@TAG, or the identity of a run.
create macro selected_runs(models, tags, sources) as table
with named as (
    select
        run_id, model, source,
        list_filter(
            [
                run_tag, base_tag, case when run_number is not null then base_tag || '-run*' end,
                case when source is not null then import_tag end
            ],
            lambda tag: tag is not null
        ) as own_tags
    from lake.runs
)
select run_id
from named
where (
    models is null or list_contains(models, model) or list_contains(models, run_id)
    or list_has_any(models, list_transform(own_tags, lambda tag: model || '@@' || tag))
)
  and (tags is null or list_has_any(tags, own_tags))
  and (sources is null or list_contains(sources, source));
