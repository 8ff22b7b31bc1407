"""The endpoint for traces (console.md 4.4)."""

from urllib.parse import urlsplit

from eosin.settings.settings import SettingError

KEY = "eosin.tracing.endpoint"
TRACES_PATH = "/v1/traces"


def traces_url(text: str) -> str:
    """The URL that takes traces: `text`, with OTLP's own path when it has none; empty when it is. Raises
    SettingError."""
    if not text:
        return ""
    try:
        url = urlsplit(text)
        is_usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise SettingError(f"{KEY} must be the http:// or https:// URL of an OTLP collector, not {text!r}")
    if "@" in url.netloc:
        raise SettingError(
            f"{KEY} must not hold a password, which DescribeConfigs would show: give OTEL_EXPORTER_OTLP_HEADERS"
        )
    return text if url.path not in ("", "/") else url._replace(path=TRACES_PATH).geturl()
