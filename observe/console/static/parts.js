// Pieces of pages. All text that comes from outside becomes text nodes, never markup.

import { Component, h } from "./vendor/preact.module.js";
import htm from "./vendor/htm.module.js";
import { choose, chosen } from "./address.js";
import { countdown, duration, OUTCOMES, TERMS } from "./words.js";

export const html = htm.bind(h);

export const to = (page, name) => `#/${page}/${encodeURIComponent(name)}`;

export function Time({ ms }) {
  if (!(ms >= 0)) return "";
  const at = new Date(ms);
  const pad = (value, length = 2) => String(value).padStart(length, "0");
  // In UTC, as in the sentences and in the broker's log; with its day unless that is today's.
  const iso = at.toISOString();
  const today = new Date().toISOString();
  const day = iso.slice(0, 10) === today.slice(0, 10) ? "" : `${iso.slice(iso.slice(0, 4) === today.slice(0, 4) ? 5 : 0, 10)} `;
  const text = `${day}${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}:${pad(at.getUTCSeconds())}${day ? "" : `.${pad(at.getUTCMilliseconds(), 3)}`}`;
  return html`<time datetime=${iso} title=${`${iso.replace("T", " ").replace("Z", "")} UTC, ${at.toLocaleString()} here`}>${text}</time>`;
}

export function Outcome({ name }) {
  if (!name) return "";
  const [letter, text] = OUTCOMES[name] ?? ["?", name];
  return html`<span class=${`outcome ${name}`}><b aria-hidden="true">${letter}</b> ${text}</span>`;
}

const STATES = { Ongoing: "open", PrepareCommit: "deciding", PrepareAbort: "deciding" };

export function State({ name }) {
  return html`<span class=${`state ${STATES[name] ?? "rest"}`}>${name || "unknown"}</span>`;
}

export function Countdown({ row, now }) {
  const { text, share } = countdown(row, now);
  if (!text) return "";
  const late = share > 0.8 ? " late" : "";
  return html`<span class="countdown">${share > 0 && html`<span class=${`bar${late}`} aria-hidden="true"><span style=${{ width: `${share * 100}%` }}></span></span>`}<span class="figure">${text}</span></span>`;
}

/** A name by which orders-2 comes before orders-10. */
export const natural = (name) => name.replace(/\d+/g, (digits) => digits.padStart(12, "0"));

/** The topic of a partition's name. */
export const topicOf = (partition) => partition.slice(0, partition.lastIndexOf("-"));

export const since = (ms, now) => (ms >= 0 ? duration(now - ms) : "");

export function Term({ name, children }) {
  return html`<span title=${TERMS[name] ?? ""}>${children ?? name}</span>`;
}

export function Command({ text }) {
  return html`<p class="command">On the command line: <code>${text}</code></p>`;
}

/** Where a program finds what a page is made of. */
export function Json({ watch }) {
  return html`<p class="quiet"><a href=${`/api/v1/stream?once&watch=${watch}`} target="_blank" rel="noreferrer">The same as JSON</a></p>`;
}

const ROW = 32;
const LEAST = 11; // em of a column that takes what is left
const MORE = 6;

/**
 * A table of any number of rows, of which those in view are in the page.
 * columns: {title, cell(row), by(row) to sort, number, width in em, term}; a cell has the link that Enter opens.
 * isShort: a few rows, all in the page; isWhole: all of them in a box that scrolls, and their sentences wrap.
 * Arrow keys, Page Up and Down, Home and End go from row to row.
 */
export class LongTable extends Component {
  constructor(props) {
    super(props);
    const order = this.isAlone(props) ? chosen("sort") : "";
    const sort = props.columns.findIndex((column) => column.by && column.title === order.replace(/^-/, ""));
    this.state = { top: 0, height: 600, sort, isDown: order.startsWith("-") };
    this.current = null;
    this.wanted = null;
    this.sorted = [];
    this.made = null;
  }

  componentDidMount() {
    this.resized = new ResizeObserver(() => this.setState({ height: this.base.clientHeight }));
    this.resized.observe(this.base);
  }

  componentWillUnmount() {
    this.resized.disconnect();
  }

  componentDidUpdate() {
    if (this.wanted === null) return;
    const link = this.base.querySelector(`tr[data-index="${this.wanted}"] a`);
    if (link) {
      this.wanted = null;
      link.focus({ preventScroll: true });
    }
  }

  /** Whether it is the one table of its page, whose order the address tells. */
  isAlone({ isShort, isWhole }) {
    return !(isShort || isWhole);
  }

  rows() {
    const { rows, columns } = this.props;
    const { sort, isDown } = this.state;
    const made = this.made;
    if (made && made[0] === rows && made[1] === sort && made[2] === isDown) return this.sorted;
    this.made = [rows, sort, isDown];
    if (sort < 0) return (this.sorted = rows);
    const by = columns[sort].by;
    const keyed = rows.map((row) => {
      const key = by(row);
      return [typeof key === "string" ? natural(key) : key, row];
    });
    const sign = isDown ? -1 : 1;
    keyed.sort((one, other) => (one[0] < other[0] ? -sign : one[0] > other[0] ? sign : 0));
    return (this.sorted = keyed.map((each) => each[1]));
  }

  sortBy(index) {
    const before = this.state;
    let next = { sort: index, isDown: false };
    if (before.sort === index) next = before.isDown ? { sort: -1, isDown: false } : { sort: index, isDown: true };
    this.setState(next);
    if (this.isAlone(this.props)) choose({ sort: next.sort < 0 ? "" : `${next.isDown ? "-" : ""}${this.props.columns[index].title}` });
  }

  moved(event) {
    const rows = this.sorted;
    const row = event.target.closest?.("tr[data-index]");
    if (!row || !rows.length) return;
    const page = Math.max(1, Math.floor(this.state.height / ROW) - 2);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = Math.min(rows.length - 1, Math.max(0, Number(row.dataset.index) + step));
    this.current = rows[next].key;
    this.wanted = next;
    const top = next * ROW;
    const view = this.base;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + 2 * ROW > view.scrollTop + this.state.height - ROW) view.scrollTop = top + 3 * ROW - this.state.height;
    this.setState({ top: view.scrollTop });
  }

  render({ label, columns, empty, isShort, isWhole }, { top, height, sort, isDown }) {
    const rows = this.rows();
    const first = Math.max(0, Math.floor(top / ROW) - MORE);
    const isAll = isShort || isWhole;
    const last = isAll ? rows.length : Math.min(rows.length, Math.ceil((top + height) / ROW) + MORE);
    const shown = rows.slice(isAll ? 0 : first, last);
    const start = isAll ? 0 : first;
    const isThere = shown.some((row) => row.key === this.current);
    if (!rows.length) return html`<div class="table empty"><p class="quiet">${empty}</p></div>`;
    return html`<div class=${`table${isShort ? " short" : ""}${isAll ? " whole" : ""}${isAll && columns.some((column) => column.wraps) ? " folds" : ""}`} onScroll=${(event) => this.setState({ top: event.currentTarget.scrollTop })} onKeyDown=${(event) => this.moved(event)}>
      <table aria-label=${label} aria-rowcount=${rows.length + 1} style=${{ minWidth: `${columns.reduce((sum, column) => sum + (column.width ?? LEAST), 0)}em` }}>
        <thead><tr aria-rowindex="1">${columns.map((column, index) => html`<th scope="col" class=${column.number ? "number" : ""} style=${column.width ? { width: `${column.width}em` } : undefined} aria-sort=${sort === index ? (isDown ? "descending" : "ascending") : undefined}>
          ${column.by && !isShort ? html`<button title=${TERMS[column.term] ?? ""} onClick=${() => this.sortBy(index)}>${column.title}${sort === index ? (isDown ? " ▾" : " ▴") : ""}</button>` : html`<span title=${TERMS[column.term] ?? ""}>${column.title}</span>`}</th>`)}</tr></thead>
        <tbody>
          ${start > 0 && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${start * ROW}px` }}></td></tr>`}
          ${shown.map((row, index) => {
            const at = start + index;
            const isCurrent = isThere ? row.key === this.current : index === 0;
            return html`<tr key=${row.key} data-index=${at} aria-rowindex=${at + 2} onFocusIn=${() => { this.current = row.key; }}>
              ${columns.map((column) => html`<td class=${column.number ? "number" : column.wraps && isAll ? "wraps" : ""}>${column.cell(row, isAll || isCurrent ? 0 : -1)}</td>`)}</tr>`;
          })}
          ${last < rows.length && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${(rows.length - last) * ROW}px` }}></td></tr>`}
        </tbody>
      </table>
    </div>`;
  }
}
