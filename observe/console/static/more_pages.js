// Pages that ask now and then instead of watching: who is connected, and every metric.

import { Component } from "./vendor/preact.module.js";
import { choose, chosen } from "./address.js";
import { html, LongTable } from "./parts.js";
import { duration, number, sentenceOf } from "./words.js";

const LOOK_MS = 2000;
const KEPT = 120;

/** Asks every two seconds while the page is in view. */
export class Asked extends Component {
  constructor() {
    super();
    this.state = { answer: null, error: "", text: chosen("find") };
  }

  componentDidMount() {
    this.ask();
    this.timer = setInterval(() => { if (!document.hidden) this.ask(); }, LOOK_MS);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
    this.isGone = true;
  }

  async ask() {
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      const told = await fetch(this.path());
      const answer = told.ok ? await this.read(told) : null;
      const error = told.ok ? "" : (await told.json().catch(() => ({}))).error ?? `the broker refuses: ${told.status}`;
      if (!this.isGone) this.setState(answer ? { answer, error } : { answer: told.status === 404 ? null : this.state.answer, error: sentenceOf(error) });
    } catch {
      if (!this.isGone) this.setState({ error: "The broker does not answer." });
    }
    this.isAsking = false;
  }

  typing(text) {
    choose({ find: text });
    this.setState({ text }, () => this.typed?.());
  }

  find(what) {
    return html`<div class="filters"><label>Find <input type="search" value=${this.state.text} placeholder=${what} onInput=${(event) => this.typing(event.currentTarget.value)} /></label></div>`;
  }
}

const waits = (row) => row.requests.map((each) => `${each.api}${each.ms >= 0 ? ` ${duration(each.ms)}` : ""}`).join(", ") + (row.in_flight > row.requests.length ? ` and ${row.in_flight - row.requests.length} more` : "");

const connectionColumns = [
  { title: "Peer", width: 13, cell: (row, tab) => html`<a tabindex=${tab} href="#/connections" title=${row.peer}>${row.peer}</a>`, by: (row) => row.peer },
  { title: "Client id", cell: (row) => html`<span title=${row.client_id}>${row.client_id}</span>`, by: (row) => row.client_id },
  { title: "Software", cell: (row) => html`<span title=${row.software}>${row.software}</span>`, by: (row) => row.software },
  { title: "Listener", width: 11, cell: (row) => row.listener, by: (row) => row.listener },
  { title: "Protocol", width: 9, cell: (row) => row.protocol, by: (row) => row.protocol },
  { title: "Principal", cell: (row) => html`<span title=${row.principal}>${row.principal}</span>`, by: (row) => row.principal },
  { title: "In flight", width: 6.4, number: true, cell: (row) => (row.in_flight ? number(row.in_flight) : ""), by: (row) => -row.in_flight },
  { title: "Waits for", cell: (row) => html`<span title=${waits(row)}>${waits(row)}</span>` },
];

export class Connections extends Asked {
  path() {
    return `/api/v1/connections?contains=${encodeURIComponent(this.state.text.trim())}`;
  }

  read(told) {
    return told.json();
  }

  typed() {
    this.ask();
  }

  render(_, { answer, error }) {
    return html`<h1>Connections</h1>${this.find("client, peer or principal")}
      ${error && html`<p class="health grave">${error}</p>`}
      ${answer && html`<p class="quiet" id="count">${number(answer.connections.length)} of ${number(answer.open)} connections${answer.left_out ? `; ${number(answer.left_out)} more match` : ""}</p>
        <p class="quiet" id="software">By library: ${answer.software.map((each) => `${each.software || "not told"}: ${number(each.connections)}`).join(", ") || "none"}.</p>
        <${LongTable} label="Connections" columns=${connectionColumns} rows=${answer.connections} empty="Nobody is connected, or none matches." />`}
      <p class="quiet"><a href="/api/v1/connections" target="_blank" rel="noreferrer">The same as JSON</a></p>`;
  }
}

/** Series of the text format, by name and labels: {key, name, labels, value, help, type}. */
export function seriesOf(text) {
  const help = {};
  const found = [];
  for (const line of text.split("\n")) {
    const about = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line);
    if (about) { (help[about[2]] ??= {})[about[1]] = about[3]; continue; }
    const one = /^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)/.exec(line);
    if (!one || one[1].endsWith("_bucket") || one[1].endsWith("_created")) continue;
    const known = help[one[1]] ?? help[one[1].replace(/_(total|sum|count)$/, "")] ?? {};
    found.push({ key: one[1] + (one[2] ?? ""), name: one[1], labels: one[2] ?? "", value: Number(one[3]), help: known.HELP ?? "", type: known.TYPE ?? "" });
  }
  return found;
}

function Spark({ values }) {
  if (values.length < 2) return "";
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  const points = values.map((value, index) => `${(index / (values.length - 1)) * 100},${19 - ((value - low) / span) * 18}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true"><polyline points=${points} /></svg>`;
}

const figure = (value) => (Number.isInteger(value) || !Number.isFinite(value) ? value.toLocaleString("en") : value.toPrecision(5));

export class Metrics extends Asked {
  history = new Map();

  path() {
    return "/metrics";
  }

  /** What is counted is drawn as its growth, what is measured as it is. */
  async read(told) {
    const series = seriesOf(await told.text());
    for (const each of series) {
      const past = this.history.get(each.key) ?? { last: null, values: [] };
      const isCount = each.type === "counter" || /_(total|count|sum)$/.test(each.name);
      if (!isCount) past.values.push(each.value);
      else if (past.last !== null) past.values.push(Math.max(0, each.value - past.last));
      if (past.values.length > KEPT) past.values.shift();
      past.last = each.value;
      this.history.set(each.key, past);
    }
    return series;
  }

  render(_, { answer, error, text }) {
    const wanted = text.trim().toLowerCase();
    const rows = (answer ?? []).filter((row) => row.key.toLowerCase().includes(wanted) || row.help.toLowerCase().includes(wanted));
    const columns = [
      { title: "Series", width: 24, cell: (row, tab) => html`<a tabindex=${tab} href="#/metrics" title=${`${row.key}: ${row.help}`}>${row.name}</a>`, by: (row) => row.key },
      { title: "Labels", cell: (row) => html`<span title=${row.labels}>${row.labels}</span>`, by: (row) => row.labels },
      { title: "Value", width: 9, number: true, cell: (row) => figure(row.value), by: (row) => -row.value },
      { title: "Since this page was opened", width: 14, cell: (row) => html`<${Spark} values=${this.history.get(row.key)?.values ?? []} />` },
      { title: "What it is", cell: (row) => html`<span title=${row.help}>${row.help}</span>` },
    ];
    return html`<h1>Metrics</h1>${this.find("name, label or meaning")}
      ${error && html`<p class="health grave">${error}</p>`}
      ${answer && html`<p class="quiet" id="count">${number(rows.length)} of ${number(answer.length)} series, without the buckets of histograms</p>
        <${LongTable} label="Metrics" columns=${columns} rows=${rows} empty="None matches." />`}
      <p class="quiet"><a href="/metrics" target="_blank" rel="noreferrer">As Prometheus reads them</a></p>`;
  }
}
