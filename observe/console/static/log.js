// The page of a partition's log: a picture of its batches, the same as a table, and ways to go through it.

import { Component } from "./vendor/preact.module.js";
import { Command, html, LongTable, Outcome, Time, to, topicOf } from "./parts.js";
import { laneName, transactionsOf } from "./log_layout.js";
import { LogPicture } from "./log_picture.js";
import { number, plural, size, TERMS } from "./words.js";

const LOOK_MS = 1000;
const MOST = 2000;
const NONE = new Set();

/** `orders-0/123` behind `#/log/`: the partition, and the offset to go to (-1: the end). */
export function placeInLog(name) {
  const at = name.indexOf("/");
  if (at < 0) return { partition: name, offset: -1 };
  const offset = /^[0-9]{1,18}$/.test(name.slice(at + 1)) ? Number(name.slice(at + 1)) : -1;
  return { partition: name.slice(0, at), offset };
}

export const range = (row) => (row.base_offset === row.last_offset ? number(row.base_offset) : `${number(row.base_offset)} - ${number(row.last_offset)}`);

const what = (row) => {
  if (row.text) return html`<i title=${row.text}>${row.text}</i>`;
  if (row.marker === "COMMIT" || row.marker === "ABORT") return html`<${Outcome} name=${row.marker.toLowerCase()} /> marker, coordinator epoch ${row.coordinator_epoch}`;
  if (row.marker) return "control record";
  return html`<${Outcome} name=${row.outcome ?? "plain"} />`;
};

const columns = (partition, producers) => [
  { title: "Offsets", width: 11, cell: (row, tab) => html`<a tabindex=${tab} href=${to(row.text ? "log" : "records", `${partition}/${row.base_offset}`)}>${row.text ? number(row.base_offset) : range(row)}</a>` },
  { title: "What", width: 21, cell: what },
  { title: "Records", width: 6.4, number: true, cell: (row) => (row.text ? "" : number(row.records)) },
  { title: "Transactional id", cell: (row) => { const name = producers[row.producer_id]; return name ? html`<a tabindex="-1" href=${to("transactions", name)} title=${name}>${name}</a>` : ""; } },
  { title: "Producer", width: 7, term: "epoch", cell: (row) => (row.producer_id >= 0 ? `${row.producer_id}/${row.epoch ?? -1}` : "") },
  { title: "Sequence", width: 7, number: true, cell: (row) => ((row.sequence ?? -1) >= 0 ? number(row.sequence) : "") },
  { title: "Time", width: 8.6, cell: (row) => (row.text ? "" : html`<${Time} ms=${row.timestamp} />`) },
  { title: "Size", width: 6, number: true, cell: (row) => (row.text ? "" : `${size(row.size)}${row.compression ? ` ${row.compression}` : ""}`) },
  { title: "Leader epoch", width: 9, number: true, cell: (row) => (row.text ? "" : row.leader_epoch) },
];

/** Rows of the table: batches, what compaction took between them, and where readers stand. */
function rowsOf(answer) {
  const lines = [
    [answer.last_stable, "LSO: readers of committed records get so far"], [answer.high_watermark, "high watermark: readers of all records get so far"],
  ].filter(([offset]) => offset > answer.first && offset < answer.log_end);
  const rows = [];
  let next = answer.first;
  for (const batch of answer.batches) {
    while (lines.length && lines[0][0] <= batch.base_offset) { const [offset, text] = lines.shift(); rows.push({ key: text, base_offset: offset, text }); }
    if (batch.base_offset > next && rows.length) rows.push({ key: `gap ${next}`, base_offset: next, text: `${number(batch.base_offset - next)} offsets that compaction has emptied` });
    rows.push({ key: batch.base_offset, ...batch, batch });
    next = batch.last_offset + 1;
  }
  return rows;
}

const binRows = (answer) => answer.bins.map((bin) => ({ key: bin.first, base_offset: bin.first, last_offset: bin.next - 1, bin }));

const binColumns = (partition) => [
  { title: "Offsets", width: 14, cell: (row, tab) => html`<a tabindex=${tab} href=${to("log", `${partition}/${row.base_offset}`)}>${range(row)}</a>` },
  ...[["plain", "No transaction"], ["committed", "Committed"], ["aborted", "Aborted"], ["open", "Open"], ["control", "Control"]].map(([outcome, title]) => ({ title, width: 8, number: true, cell: (row) => (row.bin.records?.[outcome] ? number(row.bin.records[outcome]) : "") })),
  { title: "Looked at", cell: (row) => (row.bin.is_whole === false ? `the first ${number(row.bin.batches ?? 0)} batches` : "all") },
];

export class Log extends Component {
  constructor(props) {
    super(props);
    const { partition, offset } = placeInLog(props.name);
    this.partition = partition;
    this.state = { answer: null, error: "", view: offset < 0 ? null : { first: offset, end: null }, pointed: null, at: -1 };
  }

  componentDidMount() {
    this.load();
    this.timer = setInterval(() => this.follow(), LOOK_MS);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
    this.isGone = true;
  }

  /** At the end of the log the view goes with it; elsewhere what is there stays as it is, but for outcomes. */
  follow() {
    const row = this.props.store.tables.partitions.get(this.partition);
    const groups = this.props.store.versions.groups;
    const mark = row ? `${row.log_end} ${row.last_stable} ${row.high_watermark} ${row.log_start} ${groups}` : "";
    if (document.hidden || (row && mark === this.mark && !this.state.error)) return;
    this.mark = mark;
    this.load();
  }

  async load() {
    if (this.isAsking) return;
    this.isAsking = true;
    const { view } = this.state;
    try {
      const asked = view ? `?from=${view.first}${view.end === null ? "&limit=200" : `&to=${view.end}&limit=${MOST}`}` : "";
      const told = await fetch(`/api/v1/partitions/${encodeURIComponent(this.partition)}/batches${asked}`);
      const answer = await told.json();
      if (!this.isGone && view === this.state.view) this.setState(told.ok ? { answer, error: "", rows: answer.bins.length ? binRows(answer) : rowsOf(answer), transactions: transactionsOf(answer.batches) } : { error: answer.error });
    } catch {
      if (!this.isGone) this.setState({ error: "The broker does not answer." });
    }
    this.isAsking = false;
    if (!this.isGone && view !== this.state.view) this.load();
  }

  go(first, end = null) {
    const { answer } = this.state;
    const start = answer?.log_start ?? 0;
    const least = Math.max(start, Math.round(first));
    this.setState({ view: { first: least, end: end === null ? null : Math.max(least + 1, Math.round(end)) }, at: -1 }, () => this.load());
  }

  atEnd() {
    this.setState({ view: null, at: -1 }, () => this.load());
  }

  bounds() {
    const { answer, view } = this.state;
    const first = view?.first ?? answer.first;
    const end = view?.end ?? Math.max(answer.next, first + 1);
    return { first: Math.max(answer.log_start, Math.min(first, answer.log_end)), end: Math.max(first + 1, Math.min(end, Math.max(answer.log_end, first + 1))) };
  }

  zoom = (factor, share = 0.5) => {
    const { first, end } = this.bounds();
    const middle = first + (end - first) * share;
    const span = Math.max(4, (end - first) * factor);
    this.go(middle - span * share, middle + span * (1 - share));
  };

  pan = (share) => {
    const { first, end } = this.bounds();
    const { answer } = this.state;
    const by = Math.max(answer.log_start - first, Math.min((end - first) * share, answer.log_end - end));
    if (Math.abs(by) >= 0.5) this.go(first + by, end + by);
  };

  step(by) {
    const { transactions, at } = this.state;
    if (transactions.length) this.setState({ at: Math.min(transactions.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : transactions.length - 1) : at + by)) });
  }

  keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.state.answer) return;
    const acts = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), ArrowLeft: () => this.pan(-0.5), ArrowRight: () => this.pan(0.5),
      Home: () => this.go(this.state.answer.log_start), End: () => this.atEnd(), g: () => document.getElementById("go-to").focus(),
      "]": () => this.step(1), "[": () => this.step(-1), t: () => document.querySelector("#log-table a")?.focus(),
      Enter: () => { const one = this.state.transactions[this.state.at]; const name = one && this.state.answer.producers[one.producer]; if (name) location.hash = to("transactions", name); },
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };

  chosen() {
    const { transactions, at, pointed } = this.state;
    const one = at >= 0 ? transactions[at] : pointed && transactions.find((each) => each.batches.includes(pointed));
    return one ? new Set(one.batches) : NONE;
  }

  told() {
    const { answer, pointed, transactions, at } = this.state;
    const one = at >= 0 ? transactions[at] : null;
    if (one) {
      const end = !one.marker ? "open" : one.marker.marker === "COMMIT" ? "committed" : "aborted";
      return `Transaction of ${laneName(answer, { producer: one.producer })}, ${end}: ${plural(one.batches.filter((each) => !each.marker).length, "batch").replace(/batchs$/, "batches")} from offset ${number(one.first.base_offset)}${one.marker ? ` to its marker at ${number(one.marker.base_offset)}` : ""}.${this.elsewhere(one)}`;
    }
    if (!pointed) return "";
    if (pointed.next !== undefined) return `Offsets ${number(pointed.first)} - ${number(pointed.next - 1)}: ${Object.entries(pointed.records ?? {}).map(([outcome, count]) => `${number(count)} ${outcome}`).join(", ") || "nothing begins here"}${pointed.is_whole === false ? ", of the part that was looked at" : ""}.`;
    return `Offsets ${range(pointed)}: ${pointed.marker ? `${pointed.marker} marker` : `${plural(pointed.records, "record")}, ${pointed.outcome ?? "plain"}`}, ${size(pointed.size)}${pointed.producer_id >= 0 ? `, producer ${pointed.producer_id}/${pointed.epoch}` : ""}.`;
  }

  /** The other partitions of a transaction that is open, as far as its coordinator's table names them. */
  elsewhere(one) {
    const row = one.marker ? null : this.props.store.tables.transactions.get(this.state.answer.producers[one.producer]);
    const others = row?.state === "Ongoing" ? (row.named ?? []).filter((each) => each !== this.partition) : [];
    const more = others.length ? row.partitions - others.length - 1 : 0;
    return others.length ? ` It is in ${others.join(", ")}${more > 0 ? ` and ${number(more)} more` : ""}, too.` : "";
  }

  summary() {
    const { answer } = this.state;
    const { first, end } = this.bounds();
    const counts = {};
    for (const batch of answer.batches) { const name = batch.marker || (batch.outcome ?? "plain"); counts[name] = (counts[name] ?? 0) + 1; }
    const parts = Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ");
    return `Offsets ${number(first)} to ${number(end - 1)}${parts ? `; batches: ${parts}` : ""}. The table below has the same.`;
  }

  render({ store }) {
    const { answer, error, view, rows } = this.state;
    const { partition } = this;
    return html`<p class="crumb"><a href="#/topics">Topics</a> / <a href=${to("topics", topicOf(partition))}>${topicOf(partition)}</a> / <a href=${to("partitions", partition)}>${partition}</a></p><h1>Log of ${partition}</h1>
      ${error && html`<p class="health grave">${error}</p>`}
      ${answer && html`<p class="quiet" id="stands"><span title=${TERMS["log end"]}>Log end ${number(answer.log_end)}</span>, <span title=${TERMS["high watermark"]}>high watermark ${number(answer.high_watermark)}</span>, <span title=${TERMS.LSO}>LSO ${number(answer.last_stable)}</span>, log start ${number(answer.log_start)}.
          ${answer.open.length > 0 && html` Open: ${answer.open.slice(0, 5).map((each, index) => html`${index ? ", " : ""}${each.transactional_id ? html`<a href=${to("transactions", each.transactional_id)}>${each.transactional_id}</a>` : `producer ${each.producer_id}`} from offset ${number(each.first_offset)}`)}${answer.open.length > 5 ? ` and ${number(answer.open.length - 5)} more` : ""}.`}</p>
        <div class="filters tools">
          <button onClick=${() => this.go(answer.log_start)}>Start</button><button onClick=${() => this.pan(-0.5)}>Earlier</button><button onClick=${() => this.pan(0.5)}>Later</button><button onClick=${() => this.atEnd()}>End</button>
          <button onClick=${() => this.zoom(0.5)}>Zoom in</button><button onClick=${() => this.zoom(2)}>Zoom out</button><button onClick=${() => this.go(answer.log_start, answer.log_end)}>Whole log</button>
          <form onSubmit=${(event) => { event.preventDefault(); const text = event.currentTarget.elements.offset.value; if (/^[0-9]{1,18}$/.test(text)) this.go(Number(text)); }}><label>Go to offset <input id="go-to" name="offset" inputmode="numeric" autocomplete="off" /></label></form>
        </div>
        <${LogPicture} answer=${answer} ...${this.bounds()} chosen=${this.chosen()} label=${this.summary()} keys=${this.keys} zoom=${this.zoom} pan=${this.pan} theme=${document.documentElement.dataset.theme}
          point=${(batch) => { if (batch !== this.state.pointed) this.setState({ pointed: batch }); }} open=${(batch) => { if (batch) this.setState({ at: this.state.transactions.findIndex((each) => each.batches.includes(batch)) }); }} />
        <p class="quiet told" role="status">${this.told()}</p>
        ${answer.groups.length > 0 && html`<p class="quiet" id="groups">Groups have committed: ${answer.groups.map((each, index) => html`${index ? ", " : ""}<a href=${to("groups", each.group)}>${each.group}</a> up to ${number(each.committed)}`)}.</p>`}
        <p class="legend" aria-hidden="true"><b class="plain"></b> no transaction <b class="committed"></b> committed <b class="aborted"></b> aborted <b class="open"></b> open <b class="held"></b> behind the LSO; C and A are markers${answer.groups.length ? "; ▲ groups" : ""}</p>
        <div id="log-table"><${LongTable} label=${`Log of ${partition}`} columns=${answer.bins.length ? binColumns(partition) : columns(partition, answer.producers)} rows=${rows} empty=${answer.log_end === answer.log_start ? "Nothing is in this log yet." : "Nothing begins here: go to the start or the end."} /></div>
        ${!view && html`<p class="quiet">The view follows the end of the log.</p>`}`}
      <${Command} text=${`eosin dump-log DATA_DIR/${partition}`} />
      <p class="quiet"><a href=${`/api/v1/partitions/${encodeURIComponent(partition)}/batches`} target="_blank" rel="noreferrer">The same as JSON</a></p>`;
  }
}
