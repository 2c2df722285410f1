"""What may be spent, and what happens when it is spent."""

import asyncio
from dataclasses import replace

import pytest

from shaberi_dagster.lake.journal.files import FileJournal
from shaberi_dagster.lake.journal.records import Usage
from shaberi_dagster.llm.budget import Budget
from shaberi_dagster.llm.engine import Engine
from shaberi_dagster.llm.limiter import LimiterSettings
from shaberi_dagster.llm.prices import OwnPrice, PriceList
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.util.errors import ConfigurationError
from tests.mock_endpoint import completion, running_mock

pytestmark = pytest.mark.integration

PRICED = {"model": "gpt-4.1-mini", "base_url": "https://api.openai.com/v1"}


def spend(tmp_path, ask, budget, n=40, **options):
    """The outcomes of `n` calls, four at a time, within the budget; what is in the journal; what the endpoint saw."""

    async def inside(mock):
        async with Engine({}, limiter=LimiterSettings(fixed=4)) as engine:
            with FileJournal.open(tmp_path / "j.jsonl", "m@@t", "answers") as journal:
                session = CallSession(engine, journal, "answers", lambda _: {}, budget)
                calls = [session.call(ask(mock.base_url, text=str(number)), {}) for number in range(n)]
                return await asyncio.gather(*calls), list(journal.records)

    with running_mock(length=100, **options) as mock:
        results, records = asyncio.run(inside(mock))
        return [call for call, _ in results], records, mock.stats()


def test_no_call_begins_once_the_tokens_are_spent(tmp_path, ask):
    budget = Budget(max_tokens=1000)
    calls, records, stats = spend(tmp_path, ask, budget)
    made = [call for call in calls if call.status == "ok"]
    each = made[0].usage.prompt_tokens + made[0].usage.completion_tokens
    assert 1000 <= budget.tokens == sum(c.usage.prompt_tokens + c.usage.completion_tokens for c in made)
    assert budget.tokens < 1000 + 4 * (each + 10)  # those under way are finished
    refused = [call for call in calls if call.status == "error"]
    assert {(call.error_class, call.attempts) for call in refused} == {("budget", 0)}
    assert "1,000 tokens is reached" in refused[0].error_message
    assert len(refused) == budget.refused == 40 - len(made)
    assert len(records) == stats["requests"] == len(made)  # what was not made is not recorded


def test_dollars_are_counted_at_the_list_price(finished):
    budget = Budget(max_cost_usd=0.01)
    call = replace(finished("a"), **PRICED, usage=Usage(10_000, 1_000, 0, 0))
    budget.count(call)
    assert budget.objection() is None
    assert budget.cost_usd == pytest.approx((10_000 * 0.4 + 1_000 * 1.6) / 1e6)
    budget.count(call)
    assert budget.objection() == "the budget of $0.01 is reached ($0.0112)"


@pytest.mark.parametrize("details", [{"completion_tokens_details": {"reasoning_tokens": 1000}}, {}])
def test_reasoning_beside_the_completion_counts_against_the_budget(tmp_path, ask, details):
    def thinking(body, _):
        usage = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 1030, "prompt_cache_hit_tokens": 9}
        return completion(body, "答え") | {"usage": usage | details}

    budget = Budget(max_tokens=2000, max_cost_usd=1, prices=PriceList([OwnPrice(model="*", input=0, output=1000)]))
    calls, _, stats = spend(tmp_path, ask, budget, script=thinking)
    made = [call for call in calls if call.status == "ok"]
    assert budget.tokens == 1030 * len(made)
    assert budget.cost_usd == pytest.approx(1.02 * len(made))
    assert stats["requests"] == len(made) < 10, "two are enough, and four are under way at once"


def test_a_price_that_nobody_knows_is_refused_before_anything_is_spent():
    budget = Budget(max_cost_usd=5.0)
    unknown = ("my-model", "http://localhost:8000/v1")
    budget.check([tuple(PRICED.values()), unknown])
    budget.check([("embedded/smollm2-135m", "embedded:")])
    budget.check([])
    with pytest.raises(ConfigurationError, match="price of my-model at http://localhost:8000/v1 is unknown"):
        budget.check([unknown])
    Budget(max_tokens=5).check([unknown])


def test_calls_of_unknown_price_are_counted_and_named(finished):
    budget = Budget(max_cost_usd=5.0)
    for _ in range(3):
        budget.count(replace(finished("a"), model="my-model", usage=Usage(10, 1, 0, 0)))
    (said,) = budget.unpriced()
    assert said.startswith("3 calls of my-model at ")
    assert budget.objection() is None


def test_an_endpoint_that_reports_no_tokens_ends_a_budget_at_once(finished):
    budget = Budget(max_tokens=1000)
    budget.count(replace(finished("a"), usage=Usage()))
    assert "does not report tokens" in (budget.objection() or "")


def test_without_a_limit_nothing_is_refused_or_counted(finished):
    budget = Budget()
    budget.count(replace(finished("a"), usage=Usage()))
    assert (budget.objection(), budget.tokens) == (None, 0)


def test_the_users_own_price_counts(finished, tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text("- {model: my-model, input: 1, output: 10}", encoding="utf-8")
    budget = Budget(max_cost_usd=0.02, prices=PriceList.read(path))
    budget.check([("my-model", "http://localhost:8000/v1")])
    budget.count(replace(finished("a"), model="my-model", usage=Usage(10_000, 1_000, 0, 0)))
    assert budget.cost_usd == pytest.approx(0.02)
    assert budget.objection() == "the budget of $0.02 is reached ($0.0200)"
