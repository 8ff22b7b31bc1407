// What happened to a transactional id, drawn to time: a lane for each instance of its producer (console.md 5.2).

import { html } from "./parts.js";
import { number, plural } from "./words.js";

const LANE = 40;
const BAR = 14;
const AXIS = 18;
const ENDED_BADLY = new Set(["timeout", "fenced"]);

const nameOf = (who) => (who ? [who.client_id, who.peer && `at ${who.peer}`].filter(Boolean).join(" ") : "") || "unknown";

/**
 * The shapes of an id's history, with times as shares of the whole from 0 to 1; null where nothing happened.
 * {first, last, lanes: [{name, epochs}], bars, ticks, waits, fences}; what is in a lane has its number as `lane`.
 */
export function lanesOf(facts, now) {
  const { history } = facts;
  if (!history) return null;
  // Who takes an id over gets a pair that is larger than all of the instance before. A client has several connections,
  // so an address does not tell instances apart.
  const begins = (history.takeovers ?? []).filter((each) => each.cause !== "timeout");
  const isAfter = (id, epoch, each) => id > each.producer_id || (id === each.producer_id && epoch >= each.producer_epoch);
  const lanes = new Map();
  const of = (who, id = -1, epoch = -1) => {
    const [producer, at] = id >= 0 ? [id, epoch] : [facts.producer_id ?? -1, facts.producer_epoch ?? -1];
    const key = begins.filter((each) => isAfter(producer, at, each)).length;
    if (!lanes.has(key)) lanes.set(key, { name: nameOf((key && begins[key - 1].who) || who), low: at, high: at });
    const lane = lanes.get(key);
    lane.low = Math.min(lane.low, at);
    lane.high = Math.max(lane.high, at);
    return key;
  };
  const bars = [];
  const ticks = [];
  const waits = [];
  const fences = [];
  for (const each of history.past ?? []) bars.push({ lane: of(each.who, each.producer_id, each.producer_epoch), from: each.begun_ms, to: each.ended_ms, outcome: each.outcome, epoch: each.producer_epoch, partitions: each.partitions });
  if (facts.start_ms >= 0 && (facts.state === "Ongoing" || facts.state.startsWith("Prepare"))) bars.push({ lane: of(history.opened_by ?? history.owner), from: facts.start_ms, to: now, outcome: "open", epoch: facts.producer_epoch, partitions: facts.partitions?.length ?? 0 });
  for (const each of history.events ?? []) {
    const lane = of(each.who ?? history.opened_by ?? history.owner, each.producer_id, each.producer_epoch);
    if (each.kind === "waited") waits.push({ lane, from: each.at_ms - (each.count ?? 0), to: each.at_ms, what: each.what ?? "" });
    else ticks.push({ lane, at: each.at_ms, what: `${each.kind.replaceAll("_", " ")} ${each.what ?? ""}`.trim() });
  }
  for (const each of history.takeovers ?? []) {
    if (each.cause !== "timeout") ticks.push({ lane: of(each.who, each.producer_id, each.producer_epoch), at: each.at_ms, what: `took epoch ${each.producer_epoch}: ${each.cause}` });
  }
  for (const each of history.notable ?? []) {
    if (each.kind === "fenced") fences.push({ lane: of(each.who, each.producer_id, each.producer_epoch), at: each.at_ms, by: each.by && each.cause !== "timeout" ? of(each.by.who, each.by.producer_id, each.by.producer_epoch) : -1, byAt: each.by ? each.by.at_ms : each.at_ms, cause: each.cause });
    else ticks.push({ lane: of(each.who, each.producer_id, each.producer_epoch), at: each.at_ms, what: each.kind });
  }
  const times = [...bars.flatMap((each) => [each.from, each.to]), ...waits.flatMap((each) => [each.from, each.to]), ...ticks.map((each) => each.at), ...fences.flatMap((each) => [each.at, each.byAt])].filter((each) => each >= 0);
  if (!times.length) return null;
  const first = Math.min(...times);
  const last = Math.max(...times, first + 1);
  const share = (at) => Math.min(1, Math.max(0, (at - first) / (last - first)));
  const order = [...lanes.keys()].sort((one, other) => one - other);
  const row = (key) => (key < 0 ? -1 : order.indexOf(key));
  const placed = ({ lane, ...each }) => ({ ...each, lane: row(lane), x: share(each.at ?? each.from) });
  const spread = (each) => ({ ...placed(each), width: share(each.to) - share(each.from) });
  return {
    first, last,
    lanes: order.map((key) => lanes.get(key)).map(({ name, low, high }) => ({ name, epochs: high < 0 ? "" : low === high ? `epoch ${low}` : `epochs ${low} to ${high}` })),
    bars: bars.map(spread), waits: waits.map(spread), ticks: ticks.map(placed),
    fences: fences.map((each) => ({ ...placed(each), by: row(each.by), byX: share(each.byAt) })),
  };
}

// The drawing keeps off the right edge, so that a mark at the end is whole.
const at = (share) => `${(share * 97 + 1).toFixed(3)}%`;
const wide = (share) => `${Math.max(share * 97, 0.4).toFixed(3)}%`;
const base = (lane) => (lane + 1) * LANE - 6;
const clock = (ms) => new Date(ms).toISOString().slice(11, 23);

function summary(shapes) {
  const ends = {};
  for (const each of shapes.bars) ends[each.outcome] = (ends[each.outcome] ?? 0) + 1;
  const told = Object.entries(ends).map(([outcome, count]) => `${number(count)} ${outcome}`).join(", ");
  return `${plural(shapes.lanes.length, "instance")} from ${clock(shapes.first)} to ${clock(shapes.last)}; transactions: ${told || "none"}; ${plural(shapes.fences.length, "fence")}. The table below has the same.`;
}

/** facts: of the id's page; now: the broker's time. */
export function Lanes({ facts, now }) {
  const shapes = lanesOf(facts, now);
  if (!shapes) return "";
  const height = shapes.lanes.length * LANE + AXIS;
  return html`<svg class="lanes" role="img" aria-label=${summary(shapes)} height=${height} width="100%">
    <defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5" /></pattern></defs>
    ${shapes.lanes.map((lane, index) => html`<g key=${index}><line x1="0" x2="100%" y1=${base(index)} y2=${base(index)} /><text x="4" y=${base(index) - BAR - 5}>${lane.name}${lane.epochs && `, ${lane.epochs}`}</text></g>`)}
    ${shapes.bars.map((each) => html`<rect key=${`${each.from} ${each.epoch}`} class=${ENDED_BADLY.has(each.outcome) ? "bad" : each.outcome} x=${at(each.x)} width=${wide(each.width)} y=${base(each.lane) - BAR} height=${BAR} fill=${each.outcome === "commit" || each.outcome === "open" ? undefined : "url(#hatch)"}><title>${`epoch ${each.epoch}, ${each.outcome}, ${plural(each.partitions, "partition")}, ${number(each.to - each.from)} ms`}</title></rect>`)}
    ${shapes.waits.map((each) => html`<rect class="wait" x=${at(each.x)} width=${wide(each.width)} y=${base(each.lane) - BAR - 3} height="3"><title>${`waited ${number(each.to - each.from)} ms: ${each.what}`}</title></rect>`)}
    ${shapes.ticks.map((each) => html`<line class="tick" x1=${at(each.x)} x2=${at(each.x)} y1=${base(each.lane) - BAR - 3} y2=${base(each.lane) + 3}><title>${`${clock(each.at)} ${each.what}`}</title></line>`)}
    ${shapes.fences.map((each) => html`<g class="fence"><title>${`${clock(each.at)} fenced: ${each.cause}`}</title>
      ${each.by >= 0 && each.by !== each.lane && html`<line x1=${at(each.byX)} y1=${base(each.by) - BAR / 2} x2=${at(each.x)} y2=${base(each.lane) - BAR / 2} />`}
      <svg x=${at(each.x)} y=${base(each.lane) - BAR / 2} overflow="visible"><path d="M-5 -5L5 5M-5 5L5 -5" /></svg></g>`)}
    <text x="4" y=${height - 4}>${clock(shapes.first)}</text><text x="99%" y=${height - 4} text-anchor="end">${clock(shapes.last)}</text></svg>`;
}
