// The last quarter of an hour as small charts: lines of inline SVG, a slider that reads a moment in all of them, and the
// same as a table, minute by minute (console.md 5.2). docs/adr/0046 says why no library draws them.

import { Component } from "./vendor/preact.module.js";
import { html, Time } from "./parts.js";
import { figure, number, size } from "./words.js";

const WIDTHS_MS = [120_000, 300_000, 900_000]; // what is kept fills the narrowest of them
const GAP_MS = 12_000; // a longer sample is one of a broker that was paused: no line leads over it
const HEIGHT = 40;
const MINUTE_MS = 60_000;

const perSecond = (field) => (sample) => (1000 * (sample[field] ?? 0)) / sample.took_ms;
const rate = (value) => `${value >= 99.95 || value === 0 ? number(Math.round(value)) : value.toPrecision(2)}/s`;
const bytes = (value) => `${size(Math.round(value))}/s`;
const percent = (value) => `${value > 0 && value < 0.01 ? "<1" : Math.round(100 * value)} %`;

/** {name, what it is, of: sample to number, in words, isBad, isMost: minutes have the largest value and not the mean}. */
export const CHARTS = [
  { name: "Commits", what: "Transactions committed", of: perSecond("commits"), words: rate },
  { name: "Aborts", what: "Transactions that were aborted, timed out or were fenced", of: perSecond("ended_otherwise"), words: rate, isBad: true },
  { name: "Commit takes", what: "From the request to commit to the last marker: 99 of 100 took no longer", of: (sample) => sample.commit_ms ?? 0, words: figure, isMost: true },
  { name: "Records in", what: "Records written by clients", of: perSecond("records_in"), words: rate },
  { name: "Bytes in", what: "Bytes written by clients", of: perSecond("bytes_in"), words: bytes },
  { name: "Bytes out", what: "Bytes sent to readers", of: perSecond("bytes_out"), words: bytes },
  { name: "Flush takes", what: "Making writes durable: 99 of 100 flushes took no longer", of: (sample) => sample.flush_ms ?? 0, words: figure, isMost: true, needsDisk: true },
  { name: "Busy", what: "Share of the time that the broker's event loop works", of: (sample) => sample.busy ?? 0, words: percent, top: 1 },
];

/** How much time a chart shows, in ms. */
function widthOf(samples) {
  const kept = samples.reduce((sum, each) => sum + each.took_ms, 0);
  return WIDTHS_MS.find((each) => kept <= each) ?? WIDTHS_MS.at(-1);
}

/** Samples with their places: x from 0 to 1, by how long each was and not by the wall clock, which somebody may set. */
export function placed(samples) {
  const width = widthOf(samples);
  let age = 0;
  const found = [];
  for (let index = samples.length - 1; index >= 0 && age <= width; index -= 1) {
    found.push({ sample: samples[index], x: 1 - age / width });
    age += samples[index].took_ms;
  }
  return found.reverse();
}

/** The lines of a chart as paths of SVG in a box of 100 by HEIGHT, and the value at its top. */
export function linesOf(places, { of, top = 0 }) {
  const values = places.map(({ sample }) => of(sample));
  const high = top || Math.max(0, ...values);
  const y = (value) => (HEIGHT - 1 - (high ? value / high : 0) * (HEIGHT - 4)).toFixed(1);
  let line = "";
  places.forEach(({ sample, x }, index) => {
    const begins = !index || sample.took_ms > GAP_MS;
    line += `${begins ? "M" : "L"}${(100 * x).toFixed(2)},${y(values[index])}`;
  });
  return { line: places.length === 1 ? `${line}h0.01` : line, high, y, values };
}

/** One row for each minute, the newest first. */
export function minutesOf(samples) {
  const minutes = [];
  let open = null;
  for (let index = samples.length - 1; index >= 0; index -= 1) {
    const sample = samples[index];
    if (!open || open.took + sample.took_ms > MINUTE_MS + 2500) {
      open = { key: sample.key, at: sample.at_ms, took: 0, samples: [] };
      minutes.push(open);
    }
    open.took += sample.took_ms;
    open.samples.push(sample);
  }
  return minutes.map(({ key, at, took, samples: some }) => ({
    key, at,
    values: CHARTS.map(({ of, isMost }) => (isMost ? Math.max(...some.map(of)) : some.reduce((sum, each) => sum + of(each) * each.took_ms, 0) / took)),
  }));
}

function Chart({ chart, places, at, minutes }) {
  const { line, high, y, values } = linesOf(places, chart);
  const shown = at ?? places.length - 1;
  const now = chart.words(values[shown]);
  const most = chart.words(Math.max(...values));
  const x = 100 * places[shown].x;
  return html`<figure class=${`chart${chart.isBad ? " bad" : ""}`}>
    <figcaption title=${chart.what}>${chart.name}</figcaption>
    <p class="value">${now}</p>
    <svg viewBox=${`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${chart.what}: ${chart.words(values[values.length - 1])} now, at most ${most} in the last ${minutes} minutes`}>
      <line class="base" x1="0" x2="100" y1=${HEIGHT - 0.5} y2=${HEIGHT - 0.5} />
      <path d=${line} />
      ${at !== null && html`<line class="at" x1=${x} x2=${x} y1="0" y2=${HEIGHT} /><path class="dot" d=${`M${x.toFixed(2)},${y(values[shown])}h0.01`} />`}
    </svg>
    <p class="most">${high ? `at most ${most}` : "none"}</p></figure>`;
}

/** Drawn again when a sample comes or somebody chooses a moment, and not with every row that changes. */
export class Charts extends Component {
  constructor() {
    super();
    this.state = { chosen: null, isOpen: false };
  }

  shouldComponentUpdate(next, state) {
    return next.version !== this.props.version || next.hasDisk !== this.props.hasDisk || state !== this.state;
  }

  places() {
    if (this.made !== this.props.version) {
      this.made = this.props.version;
      this.samples = [...this.props.samples.values()].sort((one, other) => one.key - other.key);
      this.placed = placed(this.samples);
      this.minutes = widthOf(this.samples) / MINUTE_MS;
    }
    return this.placed;
  }

  choose(key) {
    if (key !== this.state.chosen) this.setState({ chosen: key });
  }

  /** The pointer is over a chart: the moment nearest to it. */
  pointed(event) {
    const svg = event.target.closest?.("svg");
    if (!svg) return;
    const { left, width } = svg.getBoundingClientRect();
    const x = (event.clientX - left) / width;
    const places = this.places();
    let nearest = places[0];
    for (const each of places) if (Math.abs(each.x - x) < Math.abs(nearest.x - x)) nearest = each;
    this.choose(nearest.sample.key);
  }

  render({ hasDisk }, { chosen, isOpen }) {
    const places = this.places();
    if (!places.length) return html`<section><h2>The last 15 minutes</h2><p class="quiet">The first figures come within five seconds.</p></section>`;
    const charts = CHARTS.filter((each) => hasDisk || !each.needsDisk);
    const found = chosen === null ? -1 : places.findIndex(({ sample }) => sample.key === chosen);
    const at = found < 0 ? null : found;
    const { sample } = places[at ?? places.length - 1];
    const told = `${new Date(sample.at_ms).toISOString().slice(11, 19)} UTC: ${charts.map((each) => `${each.name} ${each.words(each.of(sample))}`).join(", ")}`;
    return html`<section id="charts"><div class="moment"><h2>The last ${this.minutes} minutes</h2>
        <label><span class="hidden">Moment</span><input type="range" min="0" max=${Math.max(1, places.length - 1)} value=${at ?? places.length - 1} aria-valuetext=${told} disabled=${places.length < 2}
          onInput=${(event) => this.choose(Number(event.currentTarget.value) === places.length - 1 ? null : places[Number(event.currentTarget.value)]?.sample.key ?? null)} /></label>
        <span class="quiet">${at === null ? "now: the mean of five seconds" : html`<${Time} ms=${sample.at_ms} />`}</span></div>
      <div class="charts" onPointerMove=${(event) => this.pointed(event)} onPointerLeave=${() => this.choose(null)}>${charts.map((each) => html`<${Chart} key=${each.name} chart=${each} places=${places} at=${at} minutes=${this.minutes} />`)}</div>
      <details open=${isOpen} onToggle=${(event) => this.setState({ isOpen: event.currentTarget.open })}><summary>The same as a table, minute by minute</summary>
        ${isOpen && html`<div class="wide"><table class="plain" aria-label="Minute by minute"><thead><tr><th scope="col">Until</th>${charts.map((each) => html`<th scope="col" class="number" title=${each.what}>${each.name}</th>`)}</tr></thead>
          <tbody>${minutesOf(this.samples).map((each) => html`<tr key=${each.key}><td><${Time} ms=${each.at} /></td>${CHARTS.map((chart, index) => charts.includes(chart) && html`<td class="number">${chart.words(each.values[index])}</td>`)}</tr>`)}</tbody></table></div>`}</details></section>`;
  }
}
