// What the page of a group shows of each kind of group: its members, and a share group's partitions.

import { html, since, Time, to } from "./parts.js";
import { duration, number } from "./words.js";

const NOTHING = html`<span class="quiet">nothing</span>`;
const names = (some) => ((some ?? []).length ? some.join(", ") : NOTHING);
const links = (each) => (each.assigned.length
  ? each.assigned.map((partition, index) => html`${index ? ", " : ""}<a href=${to("partitions", partition)}>${partition}</a>`)
  : html`<span class="quiet">nothing now</span>`);
const reads = (each) => html`${links(each)}${each.assigned_more ? ` and ${number(each.assigned_more)} more` : ""}`;
const who = (each) => html`<span title=${each.member_id}>${each.client_id}${each.instance_id ? ` (${each.instance_id})` : ""}</span>${each.is_leader ? html` <span class="quiet">assigns</span>` : ""}`;
const where = (each) => `${each.peer}${each.rack ? ` (rack ${each.rack})` : ""}`;
const epoch = (each) => (each.epoch === -2 ? html`<span class="quiet">away</span>` : number(each.epoch ?? 0));
const heard = (now, silent) => (each) => (each.heard_ms < 0 ? silent : `${since(each.heard_ms, now)} ago`);

/** The columns of a group's members: a title, a cell, and whether it is a number. Kafka's protocol does not tell who was heard of when. */
function columns(facts, now, isCluster) {
  const first = [["Client id", who], ["Where", where], ["Reads", reads]];
  const last = isCluster ? [] : [["Heard of", heard(now, ""), true]];
  if (facts.streams) {
    return [["Client id", who], ["Where", where], ["Runs", (each) => names(each.tasks)], ["Copies", (each) => names(each.copies)],
      ["Gives up, gets", (each) => names(each.moves)], ["Reads", reads], ["Topology", (each) => number(each.topology_epoch ?? -1), true],
      ["Answers at", (each) => each.endpoint || ""], ["Epoch", epoch, true], ...last];
  }
  if (facts.epoch >= 0) {
    return [...first, ["Gives up, gets", (each) => names(each.moves)], ["Subscribed to", (each) => (each.subscription ?? []).join(", ")], ["Epoch", epoch, true], ...last];
  }
  if (isCluster) return first;
  return [...first, ["Heard of", heard(now, html`<span class="quiet">joins</span>`), true], ["Session", (each) => duration(each.session_timeout_ms), true]];
}

export function Members({ facts, now, isCluster }) {
  const shown = columns(facts, now, isCluster);
  if (!facts.seen_members?.length) return html`<p class="quiet">None: nobody reads now.</p>`;
  return html`<div class="wide"><table class="plain"><thead><tr>${shown.map(([title, , isNumber]) => html`<th scope="col" class=${isNumber ? "number" : ""}>${title}</th>`)}</tr></thead>
    <tbody>${facts.seen_members.map((each) => html`<tr key=${each.member_id}>${shown.map(([, cell, isNumber]) => html`<td class=${isNumber ? "number" : ""}>${cell(each)}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** Whether a leader has the partition in memory: only then it is known what is under way. */
const isUnderWay = (each) => (each.end_offset ?? -1) >= 0;

const SHARED = [
  ["Partition", (each) => html`<a href=${to("partitions", each.partition)}>${each.partition}</a>${each.limit > 0 && each.end_offset - each.start_offset >= each.limit ? html` <b title="Nothing more is handed out before the oldest record is done (share.partition.max.record.locks).">at its limit</b>` : ""}`],
  ["Start", (each) => (each.start_offset < 0 ? html`<span class="quiet">not read</span>` : number(each.start_offset)), true],
  ["Not done with", (each) => (each.lag < 0 ? "" : number(each.lag)), true],
  ["In flight", (each) => (isUnderWay(each) ? number(each.in_flight ?? 0) : ""), true],
  ["To come again", (each) => (isUnderWay(each) ? number(each.returned ?? 0) : ""), true],
  ["Given up", (each) => (isUnderWay(each) ? number(each.given_up ?? 0) : ""), true],
  ["Deliveries of the oldest", (each) => (each.deliveries ? `${number(each.deliveries)} of ${number(each.delivery_limit)}` : ""), true],
  ["Oldest held by", (each) => (each.holder ? html`${each.holder.client_id ?? ""} until <${Time} ms=${each.until_ms} />` : "")],
  ["Members", (each) => number(each.readers ?? 0), true],
];

/** The partitions of a share group: where it is, and what its members have. */
export const SharedPartitions = ({ parts }) => html`<div class="wide"><table class="plain"><thead><tr>${SHARED.map(([title, , isNumber]) => html`<th scope="col" class=${isNumber ? "number" : ""}>${title}</th>`)}</tr></thead>
  <tbody>${parts.map((each) => html`<tr key=${each.partition}>${SHARED.map(([, cell, isNumber]) => html`<td class=${isNumber ? "number" : ""}>${cell(each)}</td>`)}</tr>`)}</tbody></table></div>
  ${!parts.length && html`<p class="quiet">None: no member has come for a topic that there is.</p>`}`;

/** The facts of a streams group that no other one has. */
export const StreamsFacts = ({ told }) => html`<dt>Topology</dt><dd>${told.topology_epoch >= 0 ? number(told.topology_epoch) : "none yet"}${told.obstacle ? html`: <b>${told.obstacle}</b>` : ""}</dd>
  <dt>Tasks</dt><dd>${number(told.active ?? 0)} active, ${number(told.standby ?? 0)} standby, ${number(told.warmup ?? 0)} warm-up</dd>
  ${told.is_delayed && html`<dt>Waits</dt><dd>for more members before tasks are dealt out</dd>`}
  ${told.shutdown_by && html`<dt>Stops</dt><dd>${told.shutdown_by} has asked the whole application to stop</dd>`}`;
