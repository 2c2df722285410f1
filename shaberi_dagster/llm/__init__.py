"""Chat calls: endpoints, client, limiter, retries, prices, and the embedded model."""

from shaberi_dagster.util.lazy import fill_later

# Two thirds of the SDK's modules: the classes of all that OpenAI's servers answer, where we read JSON.
fill_later("openai.types", "openai.types.responses")
