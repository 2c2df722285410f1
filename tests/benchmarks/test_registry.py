import pytest

from shaberi_dagster.benchmarks.registry import BENCHMARKS, get_benchmark, parse_benchmarks
from shaberi_dagster.errors import ConfigurationError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("name", "minimum", "maximum", "multiplier"),
    [("elyza", 1, 5, 2), ("tengu", 0, 10, 1), ("mt_bench", 1, 10, 1), ("rakuda", 1, 10, 1)],
)
def test_the_scales_are_those_of_shaberi(name, minimum, maximum, multiplier):
    benchmark = get_benchmark(name)
    assert (benchmark.scale_minimum, benchmark.scale_maximum) == (minimum, maximum)
    assert benchmark.reported_multiplier == multiplier


def test_every_benchmark_is_generated_and_judged_with_the_agreed_sampling():
    for benchmark in BENCHMARKS.values():
        sampling = benchmark.generation.sampling
        assert (sampling.temperature, sampling.max_tokens, sampling.frequency_penalty) == (0.2, 6000, 0)
        assert (benchmark.judging.sampling.temperature, benchmark.judging.sampling.max_tokens) == (0, 4096)


def test_all_means_the_four_benchmarks_in_their_order():
    assert [each.name for each in parse_benchmarks("all")] == ["elyza", "tengu", "mt_bench", "rakuda"]


def test_a_list_keeps_its_order_and_names_each_benchmark_once():
    assert [each.name for each in parse_benchmarks(" rakuda,elyza ,rakuda")] == ["rakuda", "elyza"]


@pytest.mark.parametrize("text", ["elyza,tangu", "tangu", "all,tangu"])
def test_an_unknown_benchmark_is_refused_with_the_known_names(text):
    with pytest.raises(ConfigurationError, match=r"known: elyza, tengu, mt_bench, rakuda"):
        parse_benchmarks(text)


@pytest.mark.parametrize("text", ["", " , "])
def test_an_empty_list_is_refused(text):
    with pytest.raises(ConfigurationError, match="no benchmark named"):
        parse_benchmarks(text)
