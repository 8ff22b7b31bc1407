// The pages of records: some of a partition, and one by itself. What is in a record is text on a page, never markup.

import { Component } from "./vendor/preact.module.js";
import { placeInLog } from "./log.js";
import { Command, html, LongTable, Outcome, Time, to, topicOf } from "./parts.js";
import { number, plural, size } from "./words.js";

const WHOLE = 1024 * 1024;
const PER_PAGE = 100;
const ISOLATIONS = [["committed", "what committed readers get"], ["uncommitted", "what readers of all records get"], ["everything", "everything, with markers"]];
const FORMATS = [["text", "text"], ["json", "JSON"], ["hex", "hex"]];

/** The choices hold for all pages of records, until the tab is closed. */
const choice = { isolation: "committed", format: "text" };

const bytesOf = (piece) => (piece.hex === undefined ? new TextEncoder().encode(piece.text ?? "") : Uint8Array.from(piece.hex.match(/../g) ?? [], (pair) => parseInt(pair, 16)));

/** Lines of sixteen bytes: where, the bytes, and what of them can be read. */
export function hexLines(piece) {
  const bytes = bytesOf(piece);
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const some = [...bytes.subarray(at, at + 16)];
    lines.push(`${at.toString(16).padStart(6, "0")}  ${some.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47)}  ${some.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("")}`);
  }
  return lines.join("\n");
}

/** A key or a value as text. isWhole: over many lines. */
export function pieceText(piece, format, isWhole) {
  if (!piece) return "null";
  if (piece.is_hidden) return `${plural(piece.size, "byte")}, not shown`;
  if (format === "hex") return isWhole ? hexLines(piece) : [...bytesOf(piece)].slice(0, 64).map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  if (piece.hex !== undefined) return isWhole ? hexLines(piece) : `0x${piece.hex.slice(0, 128)}`;
  if (format === "json" && isWhole && !piece.is_cut) {
    try { return JSON.stringify(JSON.parse(piece.text), null, 2); } catch { /* it is none: as it stands */ }
  }
  return piece.text ?? "";
}

function Piece({ piece, format }) {
  if (!piece) return html`<span class="quiet">null</span>`;
  const text = pieceText(piece, format, false);
  const more = text.length > 400 || piece.is_cut;
  return html`<span class="content">${text.slice(0, 400)}</span>${more && html` <span class="quiet">… ${size(piece.size)}</span>`}`;
}

const decodedText = (decoded) => (decoded.value === null || decoded.value === undefined ? `${decoded.kind} ${JSON.stringify(decoded.key)}: deleted` : `${decoded.kind} ${JSON.stringify(decoded.key)}: ${JSON.stringify(decoded.value)}`);

function Content({ row, format }) {
  if (row.marker) return html`<i>${row.marker === "control" ? "control record" : `${row.marker} marker`}</i>`;
  if (row.decoded && format !== "hex") return html`<span class="content">${decodedText(row.decoded).slice(0, 1500)}</span>`;
  return html`<${Piece} piece=${row.value} format=${format} />`;
}

const columns = (partition, producers, format) => [
  { title: "Offset", width: 6.5, number: true, cell: (row, tab) => html`<a tabindex=${tab} href=${to("record", `${partition}/${row.offset}`)}>${number(row.offset)}</a>` },
  { title: "Time", width: 8.6, cell: (row) => html`<${Time} ms=${row.timestamp} />` },
  { title: "Outcome", width: 10, cell: (row) => html`<${Outcome} name=${row.outcome ?? "plain"} />` },
  { title: "Transactional id", width: 11, cell: (row) => { const name = producers[row.producer_id]; return name ? html`<a tabindex="-1" href=${to("transactions", name)} title=${name}>${name}</a>` : (row.producer_id ?? -1) >= 0 ? `${row.producer_id}/${row.epoch}` : ""; } },
  { title: "Key", width: 10, wraps: true, cell: (row) => (row.marker || (row.decoded && format !== "hex") ? "" : html`<${Piece} piece=${row.key} format=${format} />`) },
  { title: "Value", wraps: true, cell: (row) => html`<${Content} row=${row} format=${format} />` },
  { title: "Headers", width: 6, number: true, cell: (row) => { const count = (row.headers?.length ?? 0) + (row.headers_left_out ?? 0); return count ? number(count) : ""; } },
];

class Asking extends Component {
  async ask(query) {
    const ticket = (this.ticket = (this.ticket ?? 0) + 1);
    try {
      const told = await fetch(`/api/v1/partitions/${encodeURIComponent(this.partition)}/records?${new URLSearchParams(query)}`);
      const answer = await told.json();
      if (ticket === this.ticket) this.setState(told.ok ? { answer, error: "" } : { error: answer.error });
    } catch {
      if (ticket === this.ticket) this.setState({ error: `The ${this.isOfCluster() ? "console" : "broker"} does not answer.` });
    }
  }

  componentWillUnmount() {
    this.ticket = -1;
  }

  /** Whether another cluster than Eosin's is shown, of which there is no page of the log. */
  isOfCluster() {
    return Boolean(this.props.store.broker?.cluster);
  }

  crumb() {
    return html`<p class="crumb"><a href="#/topics">Topics</a> / <a href=${to("topics", topicOf(this.partition))}>${topicOf(this.partition)}</a> / <a href=${to("partitions", this.partition)}>${this.partition}</a></p>`;
  }

  choices(again) {
    const pick = (name, kinds, title) => html`<label>${title} <select name=${name} value=${choice[name]} onChange=${(event) => { choice[name] = event.currentTarget.value; again(name); }}>${kinds.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === choice[name]}>${text}</option>`)}</select></label>`;
    return [pick("isolation", ISOLATIONS, "Show"), pick("format", FORMATS, "As")];
  }
}

export class Records extends Asking {
  constructor(props) {
    super(props);
    const { partition, offset } = placeInLog(props.name);
    this.partition = partition;
    this.state = { answer: null, error: "", from: offset, time: -1, key: "", value: "", back: [] };
  }

  componentDidMount() {
    this.look();
  }

  look() {
    const { from, time, key, value } = this.state;
    const query = { isolation: choice.isolation, limit: PER_PAGE };
    if (time >= 0) query.time = time;
    else if (from >= 0) query.from = from;
    if (key) query.key = key;
    if (value) query.value = value;
    return this.ask(query);
  }

  go(from, back = []) {
    this.setState({ from, back, time: -1 }, () => this.look());
  }

  filter(event) {
    event.preventDefault();
    const { offset, time, key, value } = event.currentTarget.elements;
    const at = Date.parse(`${time.value}Z`); // the field has no zone: times are in UTC here
    const from = /^[0-9]{1,18}$/.test(offset.value) ? Number(offset.value) : key.value || value.value ? 0 : -1;
    this.setState({ key: key.value, value: value.value, from, time: at >= 0 ? at : -1, back: [] }, () => this.look());
  }

  render() {
    const { answer, error, back, key, value } = this.state;
    const { partition } = this;
    const rows = (answer?.records ?? []).map((row) => ({ key: row.offset, ...row }));
    return html`${!this.props.isPart && html`${this.crumb()}<h1>Records of ${partition}</h1>`}
      <form class="filters tools" onSubmit=${(event) => this.filter(event)}>
        ${this.choices((name) => (name === "isolation" ? this.go(this.state.from) : this.setState({})))}
        <label>From offset <input name="offset" inputmode="numeric" autocomplete="off" /></label>
        <label>From time (UTC) <input name="time" type="datetime-local" step="1" /></label>
        <label>Key contains <input name="key" maxlength="200" autocomplete="off" /></label>
        <label>Value contains <input name="value" maxlength="200" autocomplete="off" /></label><button>Look</button></form>
      ${error && html`<p class="health grave" role="alert">${error}</p>`}
      ${answer && html`<p class="quiet" id="looked" role="status">${answer.looked_at ? `Looked at ${plural(answer.looked_at, "record")}, offsets ${number(answer.first)} to ${number(Math.max(answer.first, answer.next - 1))}` : "Nothing to look at"}${key || value ? `; ${plural(rows.length, "record")} found` : ""}.
          ${answer.is_end ? (answer.last_stable < answer.log_end && choice.isolation === "committed" ? ` Committed readers stand at ${number(answer.last_stable)}; the log ends at ${number(answer.log_end)}.` : " That is the end.") : ""}</p>
        <div class="filters tools">
          <button onClick=${() => this.go(0)}>Start</button>
          <button disabled=${!back.length && answer.first <= answer.log_start} onClick=${() => (back.length ? this.go(back.at(-1), back.slice(0, -1)) : this.go(Math.max(answer.log_start, answer.first - PER_PAGE)))}>Earlier</button>
          <button disabled=${answer.is_end} onClick=${() => this.go(answer.next, [...back, answer.first])}>Later</button><button onClick=${() => this.go(-1)}>End</button></div>
        <${LongTable} isWhole label=${`Records of ${partition}`} columns=${columns(partition, answer.producers, choice.format)} rows=${rows} empty="No record here: look elsewhere, or show everything." />`}
      ${!this.isOfCluster() && html`<p class="quiet"><a href=${to("log", partition)}>The log, batch by batch</a></p>`}
      <${Command} text=${`eosin consume ${topicOf(partition)}`} />
      <p class="quiet"><a href=${`/api/v1/partitions/${encodeURIComponent(partition)}/records?isolation=${choice.isolation}`} target="_blank" rel="noreferrer">The same as JSON</a></p>`;
  }
}

/** Records on the page of a topic: of one partition at a time, once somebody asks for them. */
export class TopicRecords extends Component {
  constructor() {
    super();
    this.state = { partition: "" };
  }

  pick(event) {
    event.preventDefault();
    this.setState({ partition: `${this.props.topic}-${event.currentTarget.elements.partition.valueAsNumber}` });
  }

  render({ partitions, store }, { partition }) {
    return html`<form class="filters" onSubmit=${(event) => this.pick(event)}><label>Partition <input name="partition" type="number" min="0" max=${partitions - 1} step="1" required value="0" /></label><button>Read its newest records</button></form>
      ${partition && html`<${Records} key=${partition} isPart name=${partition} store=${store} />`}`;
  }
}

export class OneRecord extends Asking {
  constructor(props) {
    super(props);
    const { partition, offset } = placeInLog(props.name);
    this.partition = partition;
    this.offset = Math.max(0, offset);
    this.state = { answer: null, error: "" };
  }

  componentDidMount() {
    this.ask({ from: this.offset, limit: 1, isolation: "everything", cut: WHOLE });
  }

  part(title, piece) {
    const note = piece?.is_cut ? `, of which the first ${size(WHOLE)} are shown` : "";
    return html`<section><h2>${title}</h2>${piece ? html`<p class="quiet">${size(piece.size)}${note}</p><pre class="content" tabindex="0" aria-label=${title}>${pieceText(piece, choice.format, true)}</pre>` : html`<p class="quiet">null</p>`}</section>`;
  }

  render() {
    const { answer, error } = this.state;
    const row = answer?.records[0];
    const isIt = row && row.offset === this.offset;
    const name = row && answer.producers[row.producer_id];
    return html`${this.crumb()}<h1>Record ${number(this.offset)} of ${this.partition}</h1>
      ${error && html`<p class="health grave" role="alert">${error}</p>`}
      ${answer && !isIt && html`<p class="health">No record has this offset${row ? html`: the next one is <a href=${to("record", `${this.partition}/${row.offset}`)}>${number(row.offset)}</a>` : ""}.</p>`}
      ${isIt && html`<div class="filters tools">${this.choices(() => this.setState({}))[1]}</div>
        <dl class="facts"><dt>What became of it</dt><dd><${Outcome} name=${row.outcome ?? "plain"} />${row.marker ? ` ${row.marker} marker` : row.is_visible ? ", committed readers get it" : ", committed readers do not get it"}</dd>
          <dt>Time</dt><dd><${Time} ms=${row.timestamp} /></dd>
          ${(row.producer_id ?? -1) >= 0 && html`<dt>Producer</dt><dd>${row.producer_id}, epoch ${row.epoch}${name && html`, <a href=${to("transactions", name)}>${name}</a>`}</dd>`}
          <dt>Batch</dt><dd>${this.isOfCluster() ? `from offset ${number(row.batch)}` : html`<a href=${to("log", `${this.partition}/${row.batch}`)}>from offset ${number(row.batch)}</a>`}</dd></dl>
        ${row.decoded && html`<section><h2>Decoded: ${row.decoded.kind}</h2><pre class="content" tabindex="0" aria-label="Decoded">${JSON.stringify({ key: row.decoded.key, value: row.decoded.value }, null, 2)}</pre></section>`}
        ${!row.marker && html`${this.part("Key", row.key)}${this.part("Value", row.value)}`}
        ${(row.headers?.length ?? 0) > 0 && html`<section><h2>Headers</h2><div class="wide"><table class="plain"><thead><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead><tbody>${row.headers.map((each) => html`<tr><td>${each.name}</td><td>${pieceText(each.value, choice.format, false)}</td></tr>`)}</tbody></table></div>${row.headers_left_out > 0 && html`<p class="quiet">${number(row.headers_left_out)} more are not shown.</p>`}</section>`}`}
      <p class="quiet">${this.offset > 0 && html`<a href=${to("record", `${this.partition}/${this.offset - 1}`)}>The offset before</a>, `}<a href=${to("record", `${this.partition}/${this.offset + 1}`)}>the offset after</a>, <a href=${to("records", `${this.partition}/${this.offset}`)}>records from here on</a></p>`;
  }
}
