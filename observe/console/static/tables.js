// The columns of each table, and which rows a page shows. Pure but for the links.

import { Countdown, html, natural, Outcome, since, State, Time, to } from "./parts.js";
import { attention, CAUSES, deadline, duration, number, size } from "./words.js";

const link = (page, name, tabindex) => html`<a href=${to(page, name)} tabindex=${tabindex} title=${name}>${name}</a>`;

const UNTOLD = new Set(["Size", "Last", "Fenced", "Client", "Last commit", "In flight"]); // what Kafka's protocol does not tell

/** The columns of a table, for another cluster than Eosin's without those that nobody could fill. */
export const told = (columns, broker) => (broker?.cluster ? columns.filter((each) => !UNTOLD.has(each.title)) : columns);

export const transactionColumns = (now) => [
  { title: "Transactional id", cell: (row, tab) => link("transactions", row.key, tab), by: (row) => row.key },
  { title: "State", width: 12, cell: (row) => html`<${State} name=${row.state} />`, by: (row) => row.state },
  { title: "Time left", width: 10.6, term: "time left", cell: (row) => html`<${Countdown} row=${row} now=${now} />`, by: (row) => (deadline(row) < 0 ? Infinity : deadline(row)) },
  { title: "Open for", width: 7, number: true, cell: (row) => since(row.start_ms ?? -1, now), by: (row) => (row.start_ms >= 0 ? row.start_ms : Infinity) },
  { title: "Producer", width: 7, term: "epoch", cell: (row) => `${row.producer_id}/${row.producer_epoch}`, by: (row) => row.producer_id },
  { title: "Partitions", cell: (row) => partitionsOf(row), by: (row) => -(row.partitions ?? 0) },
  { title: "Last", width: 9.4, cell: (row) => html`<${Outcome} name=${row.last_outcome} />`, by: (row) => row.last_outcome ?? "" },
  { title: "Fenced", width: 6.2, term: "fenced", number: true, cell: (row) => (row.fenced ? number(row.fenced) : ""), by: (row) => -(row.fenced ?? 0) },
  { title: "Client", cell: (row) => html`<span title=${row.client}>${row.client}</span>`, by: (row) => row.client ?? "" },
];

export function partitionsOf(row) {
  const named = row.named ?? [];
  const more = (row.partitions ?? 0) - named.length;
  return html`<span title=${named.join(", ")}>${named.join(", ")}${more > 0 ? ` and ${number(more)} more` : ""}</span>`;
}

export const partitionColumns = (now, transactions) => [
  { title: "Partition", cell: (row, tab) => link("partitions", row.key, tab), by: (row) => row.key },
  { title: "Log end", width: 6.2, term: "log end", number: true, cell: (row) => number(row.log_end), by: (row) => -row.log_end },
  { title: "High watermark", width: 10.6, term: "high watermark", number: true, cell: (row) => number(row.high_watermark), by: (row) => -row.high_watermark },
  { title: "LSO", width: 5, term: "LSO", number: true, cell: (row) => number(row.last_stable), by: (row) => -row.last_stable },
  { title: "Behind", width: 6.2, term: "behind", number: true, cell: (row) => behind(row) ? html`<b>${number(behind(row))}</b>` : "", by: (row) => -behind(row) },
  { title: "Held by", width: 9, cell: (row) => holder(row), by: (row) => row.held_by || "\uffff" },
  { title: "Why", width: 11.6, cell: (row) => row.error || CAUSES[row.cause] || "", by: (row) => row.cause || "\uffff" },
  { title: "Held for", width: 7, number: true, cell: (row) => (behind(row) ? since(row.held_since_ms ?? -1, now) : ""), by: (row) => row.held_since_ms ?? Infinity },
  { title: "Time left", width: 10.6, term: "time left", cell: (row) => { const held = transactions.get(row.held_by); return held && behind(row) ? html`<${Countdown} row=${held} now=${now} />` : ""; } },
  { title: "Open", width: 5, number: true, cell: (row) => (row.open ? number(row.open) : ""), by: (row) => -(row.open ?? 0) },
  { title: "Size", width: 6, number: true, cell: (row) => size(row.size), by: (row) => -row.size },
];

export const behind = (row) => Math.max(0, row.high_watermark - row.last_stable);

function holder(row) {
  if (!row.held_by) return "";
  return row.held_by.startsWith("producer ") && row.cause !== "open_transaction" ? row.held_by : link("transactions", row.held_by, 0);
}

/** Whether it is a share group: it commits no offsets, and its lag counts deliveries. */
const isShared = (row) => row.kind === "share";

export const groupColumns = () => [
  { title: "Group", cell: (row, tab) => link("groups", row.key, tab), by: (row) => row.key },
  { title: "Kind", width: 7, cell: (row) => row.kind ?? "", by: (row) => row.kind ?? "" },
  { title: "State", width: 8, cell: (row) => row.state, by: (row) => row.state },
  { title: "Members", width: 7.4, number: true, cell: (row) => number(row.members), by: (row) => -row.members },
  { title: "Partitions", width: 7.6, number: true, cell: (row) => number(row.partitions), by: (row) => -row.partitions },
  { title: "Record lag", width: 8.6, term: "record lag", number: true, cell: (row) => groupLag(row), by: (row) => -row.lag },
  { title: "In flight", width: 6.6, term: "in flight", number: true, cell: (row) => (isShared(row) ? number(row.in_flight ?? 0) : ""), by: (row) => -(row.in_flight ?? 0) },
  { title: "Markers", width: 6.8, term: "marker", number: true, cell: (row) => (isShared(row) ? "" : number(row.control_records ?? 0)), by: (row) => -(row.control_records ?? 0) },
  { title: "Undecided", width: 8.4, term: "behind", number: true, cell: (row) => (isShared(row) ? "" : number(row.undecided ?? 0)), by: (row) => -(row.undecided ?? 0) },
  { title: "Last commit", width: 10.6, cell: (row) => (row.last_commit_ms > 0 ? html`<${Time} ms=${row.last_commit_ms} />${row.grows ? html` <b title="More lies before it than a minute ago, and it has committed nothing since.">grows</b>` : ""}` : row.members && !isShared(row) ? "never" : ""), by: (row) => row.last_commit_ms ?? -1 },
  { title: "Waiting", width: 6.4, term: "waiting", number: true, cell: (row) => (isShared(row) ? "" : number(row.pending ?? 0)), by: (row) => -(row.pending ?? 0) },
];

export const groupLag = (row) => html`<b>${isCounted(row) ? "" : "≤ "}${number(row.lag)}</b>${row.uncommitted ? html` <span class="quiet" title="Partitions that a member has and the group has committed nothing for: they count from the beginning of the log.">${number(row.uncommitted)} new</span>` : ""}`;

export const isCounted = (row) => row.is_exact !== false;

export const eventColumns = () => [
  { title: "When", width: 8.6, cell: (row) => html`<${Time} ms=${row.at_ms} />`, by: (row) => -row.at_ms },
  { title: "What", width: 9, cell: (row) => html`<${Outcome} name=${row.kind} />`, by: (row) => row.kind },
  { title: "Transactional id", width: 14, cell: (row, tab) => link("transactions", row.id, tab), by: (row) => row.id },
  { title: "Why", wraps: true, cell: (row) => html`<span title=${row.sentence}>${row.sentence}</span>` },
];

export const endColumns = () => [
  { title: "When", width: 8.6, cell: (row) => html`<${Time} ms=${row.at_ms} />`, by: (row) => -row.at_ms },
  { title: "Outcome", width: 9.6, cell: (row) => html`<${Outcome} name=${row.outcome} />`, by: (row) => row.outcome },
  { title: "Transactional id", cell: (row, tab) => link("transactions", row.id, tab), by: (row) => row.id },
  { title: "Took", width: 6, number: true, cell: (row) => duration(row.duration_ms), by: (row) => -row.duration_ms },
  { title: "Partitions", width: 7.6, number: true, cell: (row) => number(row.partitions), by: (row) => -row.partitions },
  { title: "Producer", width: 7, cell: (row) => `${row.producer_id}/${row.producer_epoch}`, by: (row) => row.producer_id },
  { title: "Client", cell: (row) => html`<span title=${row.client}>${row.client}</span>`, by: (row) => row.client ?? "" },
];

/** Transactions that match, those that need a look first. holders: the ids that hold readers back. */
export function chosenTransactions(rows, { text, state }, holders) {
  const found = [];
  for (const row of rows) {
    if (state === "open" && row.state !== "Ongoing") continue;
    if (state === "deciding" && !row.state.startsWith("Prepare")) continue;
    if (state === "rest" && (row.state === "Ongoing" || row.state.startsWith("Prepare"))) continue;
    if (state === "fenced" && !row.fenced) continue;
    if (state === "blocks" && !holders.has(row.key)) continue;
    if (text && !row.key.toLowerCase().includes(text) && !(row.client ?? "").toLowerCase().includes(text)) continue;
    found.push([attention(row), row]);
  }
  found.sort((one, other) => one[0] - other[0]);
  return found.map((each) => each[1]);
}

/** The ids of transactions for which readers of committed records wait. */
export const holdersOf = (partitions) => new Set([...partitions].filter((row) => behind(row) > 0 && row.held_by).map((row) => row.held_by));

/** Partitions that match, those that are held longest first. */
export function chosenPartitions(rows, { text, state }) {
  const found = [];
  for (const row of rows) {
    if (row.is_internal && state !== "internal") continue;
    if (!row.is_internal && state === "internal") continue;
    if ((row.is_led === false) !== (state === "followed") && state !== "internal") continue;
    if (state === "held" && !behind(row) && !row.error) continue;
    if (text && !row.key.toLowerCase().includes(text) && !(row.held_by ?? "").toLowerCase().includes(text)) continue;
    found.push(row);
  }
  const rank = (row) => (row.error ? -1 : behind(row) ? (row.held_since_ms ?? 0) : Infinity);
  const keyed = found.map((row) => [rank(row), row, natural(row.key)]);
  keyed.sort((one, other) => (one[0] === other[0] ? (one[2] < other[2] ? -1 : 1) : one[0] - other[0]));
  return keyed.map((each) => each[1]);
}

/** The newest first. */
export const newest = (rows) => [...rows].sort((one, other) => other.at_ms - one.at_ms || other.key - one.key);
