-- Models and the addresses where they were called.
select distinct model, base_url from calls order by model, base_url
