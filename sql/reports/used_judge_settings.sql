-- The hashes of all settings that judges have judged with.
select distinct judge_config_hash from lake.judgements
