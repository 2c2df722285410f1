-- With which generation of the old suite's prompts a judge of an imported tree most likely judged, by the dates of the tree's
-- files and commits: J1 from 2024-04-02, J2 from 2025-02-16 (Tengu and ELYZA are new), J3 from 2025-11-23 (all new, stricter).
-- tree: part of the tree's name; null: of any other. generation_certainty: certain, nearly certain, very probable or probable.
create view prompt_generations as
from (
    values
        ('gpt-4-turbo-preview', 'lightblue', 'J1', 'certain', 'S1', 'all files are older than any other prompt'),
        ('gpt-4-turbo-preview', 'japanese_llm_eval', 'J1', 'certain', 'S1', 'all files are older than any other prompt'),
        ('gpt-4-turbo-preview', 'umiyuki', 'J1', 'certain', 'S1 or S2', 'all files are older than any other prompt'),
        ('gpt-4-turbo-preview', null, 'J1', 'very probable', 'S1 or S2', '539 of 567 files are older than any other prompt, 12 may be J2'),
        ('llmjudge-athenev2', null, 'J2', 'probable', 'S3 or S4', 'this judge came with J2; the files were committed two months later'),
        ('llmjudge-llama33', null, 'J2', 'probable', 'S3 or S4', 'this judge came with J2; the files were committed two months later'),
        ('llmjudge-tulu405', null, 'J2', 'probable', 'S3 or S4', 'this judge came with J2; the files were committed two months later'),
        ('gpt-4.1-2025-04-14', null, 'J2', 'very probable', 'S4 or S5', '508 of 676 files are older than J3, and 40 newer ones repeat their scores'),
        ('gpt-5.1-2025-11-13', null, 'J3', 'nearly certain', 'S6', 'no score is missing, and texts end as J3 asks for'),
        ('gpt-5.1-2025-11-13-oldjudgeprompt', null, 'J2', 'very probable', 'S5', 'so its name says; scores are missing as without a second call')
) as known(judge, tree, prompt_generation, generation_certainty, score_parser, reason);
