"""The providers by name: ours, and those of plugin folders."""

from shaberi_dagster.llm.providers.base import Provider
from shaberi_dagster.plugins.discovery import PluginRegistry, class_in

DEFAULT_PROVIDER = "openai_chat"
_OWN = (DEFAULT_PROVIDER, "openai_responses", "anthropic_messages")
PROVIDERS = PluginRegistry(
    "provider",
    "providers",
    ".py",
    {name: f"llm/providers/{name}.py" for name in _OWN},
    read=class_in(Provider),
)
"""The class of each provider, loaded only when it is used."""
