// The pages of topics: all of them, and one with its partitions, groups, producers and settings.

import { ChangeSetting, CreateTopic, DeleteTopic, TestRecord } from "./actions.js";
import { Asked } from "./more_pages.js";
import { Chosen, Derived, Left } from "./pages.js";
import { Command, html, Json, LongTable, Time, to, topicOf } from "./parts.js";
import { TopicRecords } from "./records.js";
import { behind, groupLag, partitionColumns, told } from "./tables.js";
import { number, plural, quoted, short, size } from "./words.js";

/** Topics out of the partitions that this broker holds, those where readers are held back first. */
export function topicsOf(partitions, { text, state }) {
  const found = new Map();
  for (const row of partitions) {
    if (Boolean(row.is_internal) !== (state === "internal")) continue;
    const name = topicOf(row.key);
    if (text && !name.toLowerCase().includes(text)) continue;
    let topic = found.get(name);
    if (!topic) found.set(name, (topic = { key: name, partitions: 0, led: 0, offsets: 0, size: 0, open: 0, held: 0, offline: 0, behind: 0, holder: "" }));
    topic.partitions += 1;
    topic.size += row.size;
    topic.offline += row.error ? 1 : 0;
    if (row.is_led === false) continue;
    topic.led += 1;
    topic.offsets += Math.max(0, row.log_end - row.log_start);
    topic.open += row.open ?? 0;
    topic.behind += behind(row);
    if (behind(row)) { topic.held += 1; topic.holder ||= row.held_by ?? ""; }
  }
  const rows = [...found.values()].filter((row) => state !== "held" || row.held || row.offline);
  return rows.sort((one, other) => other.offline - one.offline || other.held - one.held || (one.key < other.key ? -1 : 1));
}

const topicColumns = [
  { title: "Topic", cell: (row, tab) => html`<a href=${to("topics", row.key)} tabindex=${tab} title=${row.key}>${row.key}</a>`, by: (row) => row.key },
  { title: "Partitions", width: 8, number: true, cell: (row) => number(row.partitions), by: (row) => -row.partitions },
  { title: "Offsets", width: 8, number: true, term: "offsets", cell: (row) => number(row.offsets), by: (row) => -row.offsets },
  { title: "Size", width: 7, number: true, cell: (row) => size(row.size), by: (row) => -row.size },
  { title: "Open", width: 6, number: true, term: "open", cell: (row) => (row.open ? number(row.open) : ""), by: (row) => -row.open },
  { title: "Behind", width: 7, number: true, term: "behind", cell: (row) => (row.behind ? html`<b>${number(row.behind)}</b>` : ""), by: (row) => -row.behind },
  { title: "Readers", cell: (row) => readers(row), by: (row) => -(row.offline * 1e6 + row.held) },
];

function readers(row) {
  if (row.offline) return html`<span class="state gone">${plural(row.offline, "partition")} not available</span>`;
  if (!row.held) return html`<span class="quiet">wait for nothing</span>`;
  const text = `held back in ${plural(row.held, "partition")}${row.holder ? ` by ${row.holder}` : ""}`;
  return html`<span title=${text}>${text}</span>`;
}

export class Topics extends Chosen {
  render({ store }) {
    const choice = this.choice();
    const rows = this.derived.of(store.versions.partitions, choice, () => topicsOf(store.tables.partitions.values(), choice));
    return html`<h1>Topics</h1>
      ${this.filters([["", "topics of clients"], ["held", "where readers are held back"], ["internal", "internal topics"]], "topic")}
      <p class="quiet" id="count">${plural(rows.length, "topic")}</p>
      <${LongTable} label="Topics" columns=${told(topicColumns, store.broker)} rows=${rows} empty=${choice.text || choice.state ? "None matches." : "No topic yet. Make one with `eosin topics create orders`, or let a producer write to it."} />
      <${Left} count=${store.broker?.partitions_left_out} what="partitions" />
      ${store.broker?.has_actions && html`<${CreateTopic} />`}
      <${Command} text="eosin topics list" /><${Json} watch="partitions" />`;
  }
}

const replicaColumns = (isOne) => (isOne ? [] : [
  { title: "Leader", width: 5.5, number: true, cell: (row) => (row.leader < 0 ? html`<b>none</b>` : row.leader), by: (row) => row.leader },
  { title: "In sync", width: 8, cell: (row) => html`<span title=${`replicas ${row.replicas.join(", ")}`} class=${row.in_sync.length < row.replicas.length ? "late" : ""}>${row.in_sync.join(", ")}${row.in_sync.length < row.replicas.length ? ` of ${row.replicas.length}` : ""}</span>`, by: (row) => row.in_sync.length - row.replicas.length },
]);

/** Columns of partitions for one topic: the name is the number, and what another broker leads is not known here. */
function columnsOf(answer, now, transactions) {
  const isOne = answer.replicas.every((each) => each.replicas.length === 1 && each.leader === answer.replicas[0].leader);
  const [name, ...rest] = partitionColumns(now, transactions);
  return [{ ...name, width: 7, cell: (row, tab) => html`<a href=${to("partitions", row.key)} tabindex=${tab}>${row.partition}</a>`, by: (row) => row.partition },
    ...replicaColumns(isOne), ...rest.map((column) => ({ ...column, cell: (row) => (row.log_end === undefined ? (column.title === "Log end" ? html`<span class="quiet">elsewhere</span>` : "") : column.cell(row)), by: (row) => (row.log_end === undefined ? Infinity : column.by?.(row)) }))];
}

const producerColumns = [
  { title: "Transactional id", cell: (row, tab) => (row.transactional_id ? html`<a href=${to("transactions", row.transactional_id)} tabindex=${tab} title=${row.transactional_id}>${row.transactional_id}</a>` : html`<span class="quiet">idempotent, or of another broker</span>`), by: (row) => row.transactional_id || "\uffff" },
  { title: "Producer", width: 8, term: "epoch", cell: (row) => `${row.producer_id}/${row.producer_epoch}`, by: (row) => row.producer_id },
  { title: "Partition", width: 7, number: true, cell: (row) => number(row.partition), by: (row) => row.partition },
  { title: "Last sequence", width: 9.5, number: true, cell: (row) => (row.last_sequence >= 0 ? number(row.last_sequence) : ""), by: (row) => -row.last_sequence },
  { title: "Last written", width: 11, cell: (row) => html`<${Time} ms=${row.last_ms} />`, by: (row) => -row.last_ms },
  { title: "Transaction", width: 12, cell: (row) => (row.first_offset >= 0 ? html`<span class="state open">open from ${number(row.first_offset)}</span>` : ""), by: (row) => (row.first_offset >= 0 ? row.first_offset : Infinity) },
];

const topicGroupColumns = [
  { title: "Group", cell: (row, tab) => html`<a href=${to("groups", row.key)} tabindex=${tab} title=${row.key}>${row.key}</a>`, by: (row) => row.key },
  { title: "State", width: 10, cell: (row) => row.state, by: (row) => row.state },
  { title: "Members", width: 7.4, number: true, cell: (row) => number(row.members), by: (row) => -row.members },
  { title: "Partitions", width: 7.6, number: true, cell: (row) => number(row.partitions), by: (row) => -row.partitions },
  { title: "Record lag", width: 8.6, term: "record lag", number: true, cell: (row) => groupLag(row), by: (row) => -row.lag },
  { title: "Undecided", width: 8.4, term: "behind", number: true, cell: (row) => number(row.undecided), by: (row) => -row.undecided },
];

const settingColumns = [
  { title: "Setting", width: 19, cell: (row) => html`<code title=${row.key}>${row.key}</code>`, by: (row) => row.key },
  { title: "Value", width: 12, wraps: true, cell: (row) => (row.value === null ? html`<span class="quiet">hidden</span>` : row.is_own ? html`<b>${row.value}</b>` : row.value), by: (row) => row.value ?? "" },
  { title: "From", width: 9, wraps: true, cell: (row) => (row.is_own ? html`<b>this topic</b>` : row.source), by: (row) => row.source },
  { title: "What it does", wraps: true, cell: (row) => row.help },
];

export class Topic extends Asked {
  constructor() {
    super();
    this.parts = new Derived();
    this.state.all = false;
  }

  path() {
    return `/api/v1/topics/${encodeURIComponent(this.props.name)}`;
  }

  read(told) {
    return told.json();
  }

  /** Where each partition is, with what the stream tells of it. */
  rows(answer, store) {
    const { partitions } = store.tables;
    return this.parts.of(`${store.versions.partitions} ${answer.now_ms}`, 0, () => answer.replicas.map((each) => {
      const row = partitions.get(`${answer.name}-${each.partition}`);
      return { ...(row && row.is_led !== false ? row : {}), key: `${answer.name}-${each.partition}`, ...each };
    }));
  }

  health(rows) {
    const held = rows.filter((row) => row.log_end !== undefined && behind(row));
    const offline = rows.filter((row) => row.error);
    const away = rows.filter((row) => row.leader < 0);
    if (offline.length) return [`The log of ${offline[0].key} is offline: ${offline[0].error}.`, "grave"];
    if (away.length) return [`${plural(away.length, "partition")} without a leader: nobody reads or writes there.`, "grave"];
    if (held.length) return [`Readers of committed records are held back in ${plural(held.length, "partition")}${held[0].held_by ? `, first by ${short(held[0].held_by)}` : ""}.`, "trouble"];
    return ["Readers of committed records wait for nothing here.", ""];
  }

  render({ name, now, store }, { answer, error, all }) {
    const rows = answer ? this.rows(answer, store) : [];
    const [sentence, urgency] = this.health(rows);
    const sum = (what) => rows.reduce((total, row) => total + (row.log_end === undefined ? 0 : what(row)), 0);
    const own = answer?.configs.filter((each) => each.source !== "default") ?? [];
    const factor = Math.max(0, ...rows.map((row) => row.replicas.length));
    return html`<p class="crumb"><a href="#/topics">Topics</a></p><h1>${name}</h1>
      ${error && html`<p class="health grave" role="alert">${error}</p>`}
      ${!answer && !error && html`<p class="quiet">Looking at it.</p>`}
      ${answer && html`<p class=${`health ${urgency}`} id="sentence">${sentence}</p>
        <dl class="figures">
          ${[["partitions", number(answer.partitions)], ["replicas", number(factor)], ["offsets", number(sum((row) => row.log_end - row.log_start))], ...(store.broker?.cluster ? [] : [["size", size(sum((row) => row.size))]]), ["open transactions", number(sum((row) => row.open ?? 0))], ["producers", number(new Set(answer.producers.map((each) => each.producer_id)).size) + (answer.producers_known > answer.producers.length ? "+" : "")], ["groups", number(answer.groups.length)]].map(([what, figure]) => html`<div key=${what}><dt>${what}</dt><dd>${figure}</dd></div>`)}</dl>
        <section><h2>Partitions</h2><${LongTable} label="Partitions" columns=${told(columnsOf(answer, now, store.tables.transactions), store.broker)} rows=${rows} empty="It has none." />
          <${Left} count=${answer.partitions - answer.replicas.length} what="partitions" /></section>
        <section><h2>Records</h2><${TopicRecords} topic=${answer.name} partitions=${answer.partitions} store=${store} /></section>
        <section><h2>Consumer groups</h2><${LongTable} isShort label="Consumer groups" columns=${topicGroupColumns} rows=${answer.groups} empty="No group has committed an offset of this topic here." />
          <${Left} count=${answer.groups_left_out} what="groups" /></section>
        <section><h2>Producers</h2><${LongTable} label="Producers" columns=${producerColumns} rows=${answer.producers} empty="No idempotent or transactional producer has written here yet. Others leave no trace." />
          <${Left} count=${answer.producers_known - answer.producers.length} what="producers" /></section>
        <section><h2>Settings</h2>
          <${LongTable} isWhole label="Settings" columns=${settingColumns} rows=${all ? answer.configs : own} empty="Every setting has its default." />
          <p class="quiet"><button aria-expanded=${all ? "true" : "false"} onClick=${() => this.setState({ all: !all })}>${all ? "Only what was set" : `All ${number(answer.configs.length)} settings`}</button></p></section>
        ${store.broker?.has_actions && !answer.is_internal && html`<section><h2>Actions</h2>
          <${TestRecord} partitions=${rows.filter((row) => row.log_end !== undefined).map((row) => row.key)} />
          <${ChangeSetting} topic=${answer} /><${DeleteTopic} topic=${answer} /></section>`}`}
      <${Command} text=${`eosin topics describe ${quoted(name)}`} />
      <p class="quiet"><a href=${this.path()} target="_blank" rel="noreferrer">The same as JSON</a></p>`;
  }
}
