"""Traces: each transaction as a span, sent to a collector over OTLP/HTTP (console.md 4.4, docs/adr/0045). Only a broker
with `eosin.tracing.endpoint` imports it; `exporting` alone needs the extra `eosin[otel]`."""
