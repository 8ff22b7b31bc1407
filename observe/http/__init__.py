"""The HTTP listener: health, metrics, and the facts that `eosin explain` asks for (console.md 4.1). Only a broker with
`eosin.http.listener` imports it; nobody else loads its libraries."""
