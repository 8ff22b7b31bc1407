"""The live console: what transactions do in this broker, in a browser (console.md 5). Only a broker with
`eosin.console.enable` imports it."""
