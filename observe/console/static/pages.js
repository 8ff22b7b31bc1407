// One class for each page. A page gets the store and the broker's time, and derives what it shows when the tables change.

import { Component } from "./vendor/preact.module.js";
import { choose, chosen } from "./address.js";
import { AbortHanging, DeleteRecords, EndTransaction, FenceId, RemoveMember, TestRecord } from "./actions.js";
import { Charts } from "./charts.js";
import { Members, SharedPartitions, StreamsFacts } from "./groups.js";
import { Lanes } from "./lanes.js";
import { Command, html, Json, LongTable, Outcome, since, State, Time, Countdown, to, topicOf } from "./parts.js";
import {
  behind, chosenPartitions, chosenTransactions, endColumns, eventColumns, groupColumns, holdersOf, newest, partitionColumns,
  told, transactionColumns,
} from "./tables.js";
import { diskWords, DURABILITY, duration, health, number, plural, quoted, sentenceOf, size, TERMS, urgency } from "./words.js";

const FEW = 8;
const MOST_EVIDENCE = 5;

/** Derives rows from a table again only when the table or the choice has changed. */
export class Derived {
  of(version, choice, make) {
    const key = `${version} ${JSON.stringify(choice)}`;
    if (this.key !== key) { this.key = key; this.rows = make(); }
    return this.rows;
  }
}

export class Overview extends Component {
  constructor() {
    super();
    this.open = new Derived();
    this.held = new Derived();
    this.events = new Derived();
    this.ends = new Derived();
  }

  render({ store, now }) {
    const { tables, versions, broker } = store;
    const open = this.open.of(versions.transactions, 0, () => chosenTransactions(tables.transactions.values(), { state: "" }).filter((row) => row.state === "Ongoing" || row.state.startsWith("Prepare")).slice(0, FEW));
    const held = this.held.of(versions.partitions, 0, () => chosenPartitions(tables.partitions.values(), { state: "held" }).slice(0, FEW));
    const events = this.events.of(versions.events, 0, () => newest(tables.events.values()).slice(0, FEW));
    const ends = this.ends.of(versions.ends, 0, () => newest(tables.ends.values()).slice(0, FEW));
    return html`<h1>Overview</h1>
      <p class=${`health ${urgency(broker, held, tables.transactions, now)}`} id="health">${health(broker, held[0]?.held_by)}${broker?.held > 0 && held[0] ? html` <a href=${to("partitions", held[0].key)}>Why, and until when</a>` : ""}</p>
      ${broker && html`<dl class="figures">
        ${[["open", broker.open], ["deciding", broker.preparing], ["transactional ids", broker.ids], ["partitions", broker.partitions], ["held back", broker.held], ["groups", broker.groups]].map(([name, count]) => html`<div key=${name}><dt>${name}</dt><dd>${number(count)}</dd></div>`)}
        ${!broker.cluster && html`<div><dt>logs</dt><dd>${size(broker.log_bytes)}</dd></div>`}
        ${broker.total_bytes > 0 && html`<div class=${broker.is_disk_full ? "grave" : ""}><dt>disk free</dt><dd>${size(broker.free_bytes)}</dd></div>`}
        ${!broker.cluster && html`<div><dt>durability</dt><dd class="word">${broker.durability}</dd></div>`}</dl>
        <p class="quiet" id="disk">${broker.cluster ? "Read-only, over Kafka's protocol: who did what, and why, is recorded by Eosin's brokers alone." : `${DURABILITY[broker.durability]} ${diskWords(broker)}`}</p>`}
      ${broker?.is_joined && html`<p class="quiet">This broker is one of several: partitions and ids of the others are in their consoles.</p>`}
      ${broker && !broker.cluster && html`<${Charts} samples=${tables.samples} version=${versions.samples} hasDisk=${broker.durability === "fsync"} />`}
      <section><h2>Open transactions</h2><${LongTable} isShort label="Open transactions" columns=${told(transactionColumns(now), broker)} rows=${open} empty=${broker?.ids ? "Nothing is open." : `No transaction yet. Point a producer with a transactional.id at ${broker?.address || "this broker"}, or try: echo hello | eosin produce orders --create --transactional-id shop-1${broker?.address ? ` --bootstrap-server ${broker.address}` : ""}`} /></section>
      <section><h2>Readers held back</h2><${LongTable} isShort label="Readers held back" columns=${partitionColumns(now, tables.transactions).filter((each) => each.title !== "Size")} rows=${held} empty="Readers of committed records wait for nothing." /></section>
      ${!broker?.cluster && html`<section><h2>Fenced, timed out, refused</h2><${LongTable} isShort label="Fenced, timed out, refused" columns=${eventColumns()} rows=${events} empty="Nobody was fenced." /></section>
      <section><h2>Last ends</h2><${LongTable} isShort label="Last ends" columns=${endColumns()} rows=${ends} empty="No transaction has ended since this broker began to record." /></section>`}
      <${Command} text=${broker?.cluster ? "eosin explain" : "eosin transactions list"} /><${Json} watch="broker,samples" />`;
  }
}

/** A filter of text and one of kinds above a long table. */
export class Chosen extends Component {
  constructor() {
    super();
    this.state = { text: chosen("find"), state: chosen("show") };
    this.derived = new Derived();
  }

  find(event) {
    const text = event.currentTarget.value;
    choose({ find: text });
    this.setState({ text });
  }

  show(event) {
    const state = event.currentTarget.value;
    choose({ show: state });
    this.setState({ state });
  }

  filters(kinds, what) {
    const { text, state } = this.state;
    return html`<div class="filters">
      <label>Find <input type="search" value=${text} placeholder=${what} onInput=${(event) => this.find(event)} /></label>
      <label>Show <select value=${state} onChange=${(event) => this.show(event)}>${kinds.map(([value, title]) => html`<option key=${value} value=${value} selected=${value === state}>${title}</option>`)}</select></label>
    </div>`;
  }

  choice() {
    return { text: this.state.text.trim().toLowerCase(), state: this.state.state };
  }
}

export const Left = ({ count, what }) => (count ? html`<p class="quiet">${number(count)} more ${what} are not shown here.</p>` : "");

export class Transactions extends Chosen {
  render({ store, now }) {
    const choice = this.choice();
    const { tables, versions } = store;
    const version = choice.state === "blocks" ? `${versions.transactions} ${versions.partitions}` : versions.transactions;
    const rows = this.derived.of(version, choice, () => chosenTransactions(tables.transactions.values(), choice, choice.state === "blocks" ? holdersOf(tables.partitions.values()) : null));
    return html`<h1>Transactions</h1>
      ${this.filters([["", "all"], ["open", "open"], ["deciding", "waiting for markers"], ["rest", "at rest"], ["fenced", "with fenced requests"], ["blocks", "that hold readers back"]], "id or client")}
      <p class="quiet" id="count">${number(rows.length)} of ${number(store.tables.transactions.size)} transactional ids</p>
      <${LongTable} label="Transactions" columns=${told(transactionColumns(now), store.broker)} rows=${rows} empty=${store.broker ? "None matches. A producer with a transactional.id appears here when it introduces itself." : "Nothing is known yet."} />
      <${Left} count=${store.broker?.ids_left_out} what="ids at rest" />
      <${Command} text="eosin transactions list" /><${Json} watch="transactions" />`;
  }
}

export class Partitions extends Chosen {
  render({ store, now }) {
    const choice = this.choice();
    const rows = this.derived.of(store.versions.partitions, choice, () => chosenPartitions(store.tables.partitions.values(), choice));
    return html`<h1>Partitions</h1>
      ${this.filters([["", "topics of clients"], ["held", "where readers are held back"], ["internal", "internal topics"], ["followed", "led by other brokers"]], "partition or holder")}
      <p class="quiet" id="count">${number(rows.length)} of ${number(store.tables.partitions.size)} partitions</p>
      <${LongTable} label="Partitions" columns=${told(partitionColumns(now, store.tables.transactions), store.broker)} rows=${rows} empty=${store.broker ? "No partition yet. Create a topic, or write to one." : "Nothing is known yet."} />
      <${Left} count=${store.broker?.partitions_left_out} what="partitions" />
      <${Command} text="eosin topics describe TOPIC" /><${Json} watch="partitions" />`;
  }
}

/** A broker: where it is, and what it leads of what is shown here. */
export class Brokers extends Component {
  constructor() {
    super();
    this.derived = new Derived();
  }

  render({ name, store, now }) {
    const { tables, versions, broker } = store;
    const nodes = broker?.nodes ?? [];
    const one = nodes.find((each) => String(each.node_id) === name);
    const link = (each) => html`<a href=${to("brokers", each.node_id)} aria-current=${each === one ? "true" : undefined}>broker ${each.node_id}</a> at ${each.address}${each.rack ? `, rack ${each.rack}` : ""}${!broker.cluster && each.node_id === broker.node_id ? ", which shows this page" : ""}`;
    const rows = this.derived.of(versions.partitions, [name, Boolean(one)], () => ["", "followed", "internal"].flatMap((state) => chosenPartitions(tables.partitions.values(), { state })).filter((row) => one && row.leader === one.node_id));
    return html`<h1>${one ? `Broker ${name}` : "Brokers"}</h1>
      ${name && broker && !one && html`<p class="health grave" role="alert">No broker ${name} is there now.</p>`}
      <ul>${nodes.map((each) => html`<li key=${each.node_id}>${link(each)}</li>`)}</ul>
      ${one && html`<section><h2>Partitions that it leads</h2><p class="quiet" id="count">${number(rows.length)} of ${plural(tables.partitions.size, "partition")} that ${broker.cluster ? "the cluster has" : "the broker of this page holds"}</p>
        <${LongTable} label="Partitions" columns=${told(partitionColumns(now, tables.transactions), broker)} rows=${rows} empty="None of those that are shown here." /></section>`}
      <${Command} text="eosin cluster describe" /><${Json} watch="broker" />`;
  }
}

const before = (row) => row.lag + (row.undecided ?? 0); // a group that is blocked has no lag and waits all the same

export class Groups extends Chosen {
  render({ store }) {
    const { text } = this.choice();
    const rows = this.derived.of(store.versions.groups, text, () => [...store.tables.groups.values()].filter((row) => row.key.toLowerCase().includes(text) || row.kind === text).sort((one, other) => before(other) - before(one) || (one.key < other.key ? -1 : 1)));
    return html`<h1>Groups</h1>
      <div class="filters"><label>Find <input type="search" value=${this.state.text} placeholder="group, or kind" onInput=${(event) => this.find(event)} /></label></div>
      <p class="quiet">Record lag counts what readers of committed records will still get. Markers (control records), aborted records and what is undecided are no lag. Partitions that a member has and the group has committed nothing for are "new": they count from the beginning of the log. Of a share group it counts what is not done with.</p>
      <${LongTable} label="All groups" columns=${told(groupColumns(), store.broker)} rows=${rows} empty=${store.broker ? "No group yet. Groups appear when they commit an offset or have a member." : "Nothing is known yet."} />
      <${Command} text="eosin groups list" /><${Json} watch="groups" />`;
  }
}

export class Events extends Component {
  constructor() {
    super();
    this.events = new Derived();
    this.ends = new Derived();
  }

  render({ store }) {
    const { tables, versions } = store;
    const events = this.events.of(versions.events, 0, () => newest(tables.events.values()));
    const ends = this.ends.of(versions.ends, 0, () => newest(tables.ends.values()));
    return html`<h1>Events</h1>
      <section><h2>Fenced, timed out, refused</h2><${LongTable} isWhole label="Fenced, timed out, refused" columns=${eventColumns()} rows=${events} empty="Nobody was fenced." /></section>
      <section><h2>Last ends</h2><${LongTable} isWhole label="Last ends" columns=${endColumns()} rows=${ends} empty="No transaction has ended since this broker began to record." /></section>
      <${Command} text="eosin explain TRANSACTIONAL_ID --timeline" /><${Json} watch="events,ends" />`;
  }
}

/** A page about one thing: its sentence is asked for again when its row changes, and each second at most. */
class Told extends Component {
  constructor() {
    super();
    this.state = { answer: null, error: "" };
  }

  componentDidMount() {
    this.ask();
    this.timer = setInterval(() => this.ask(), 1000);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
    this.isGone = true;
  }

  path() {
    return `/api/v1/explain/${this.kind}/${encodeURIComponent(this.props.name)}`;
  }

  async ask() {
    if (this.isAsking || document.hidden) return;
    this.isAsking = true;
    try {
      const answer = await fetch(this.path());
      const told = await answer.json();
      if (!this.isGone) this.setState(answer.ok ? { answer: told, error: "" } : { answer: null, error: sentenceOf(told.error) });
    } catch {
      if (!this.isGone) this.setState({ error: "The broker does not answer." });
    }
    this.isAsking = false;
  }

  crumb(title) {
    return html`<a href=${`#/${this.kind}`}>${title}</a>`;
  }

  /** What is behind the sentence, and not on the page in another way. */
  evidence({ explained }) {
    return explained.evidence ?? [];
  }

  frame(title, command, body) {
    const { answer, error } = this.state;
    return html`<p class="crumb">${this.crumb(title)}</p><h1>${this.props.name}</h1>
      ${error && this.props.store.state !== "lost" && html`<p class="health grave" role="alert">${error}</p>`}
      ${!answer && !error && html`<p class="quiet">Looking at it.</p>`}
      ${answer && html`<p class="health" id="sentence">${answer.text}</p>`}
      ${answer && html`<ul class="evidence">${this.evidence(answer).slice(0, MOST_EVIDENCE).map((each) => html`<li key=${each}>${each}</li>`)}</ul>`}
      ${answer && body(answer.facts, answer.explained)}
      <${Command} text=${command} />
      <p class="quiet"><a href=${this.path()} target="_blank" rel="noreferrer">The same as JSON</a></p>`;
  }
}

export class Transaction extends Told {
  kind = "transactions";

  render({ name, now, store }) {
    const row = store.tables.transactions.get(name);
    return this.frame("Transactions", `eosin explain ${quoted(name)} --as txn --timeline`, (facts, explained) => html`
      ${row && html`<dl class="facts"><dt>State</dt><dd><${State} name=${row.state} /></dd>
        <dt>Producer</dt><dd>${row.producer_id}, epoch ${row.producer_epoch}</dd>
        ${row.start_ms >= 0 && html`<dt>Open for</dt><dd>${since(row.start_ms, now)}</dd>`}
        ${row.start_ms >= 0 && html`<dt>Time left</dt><dd><${Countdown} row=${row} now=${now} /></dd>`}
        ${row.client && html`<dt>Client</dt><dd>${row.client}</dd>`}</dl>`}
      ${row?.state === "Ongoing" && store.broker?.has_actions && html`<${EndTransaction} key=${row.start_ms} row=${row} />`}
      ${row && row.state !== "Ongoing" && !row.state.startsWith("Prepare") && store.broker?.has_actions && html`<${FenceId} row=${row} />`}
      ${(facts.partitions?.length ?? 0) > 0 && html`<section><h2>Partitions</h2><ul class="names">${facts.partitions.slice(0, 200).map((each) => html`<li key=${each}><a href=${to("partitions", each)}>${each}</a></li>`)}</ul></section>`}
      <${Timeline} events=${explained.timeline} picture=${html`<${Lanes} facts=${facts} now=${now} />`} />
      <${Past} past=${facts.history?.past ?? []} />`);
  }
}

function Past({ past }) {
  if (!past.length) return "";
  return html`<section><h2>Transactions before</h2><div class="wide"><table class="plain"><thead><tr><th scope="col">Begun</th><th scope="col">Ended</th><th scope="col">Outcome</th><th scope="col" class="number">Partitions</th><th scope="col">Producer</th></tr></thead>
    <tbody>${[...past].reverse().map((each) => html`<tr><td><${Time} ms=${each.begun_ms} /></td><td><${Time} ms=${each.ended_ms} /></td><td><${Outcome} name=${each.outcome} /></td><td class="number">${each.partitions}</td><td>${each.producer_id}/${each.producer_epoch}</td></tr>`)}</tbody></table></div></section>`;
}

function Timeline({ events, picture }) {
  if (!events?.length) return "";
  return html`<section><h2>What happened</h2>${picture}<div class="wide"><table class="plain"><thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Producer</th><th scope="col">Who</th></tr></thead>
    <tbody>${[...events].reverse().map((each) => html`<tr><td><${Time} ms=${each.at_ms} /></td><td title=${each.kind}>${each.words}</td><td>${each.producer_id >= 0 ? `${each.producer_id}/${each.producer_epoch}` : ""}</td><td>${each.who ? `${each.who.client_id ?? ""} ${each.who.peer ?? ""}` : ""}</td></tr>`)}</tbody></table></div></section>`;
}

export class Partition extends Told {
  kind = "partitions";

  crumb() {
    return html`<a href="#/topics">Topics</a> / <a href=${to("topics", topicOf(this.props.name))}>${topicOf(this.props.name)}</a>`;
  }

  render({ name, now, store }) {
    const row = store.tables.partitions.get(name);
    return this.frame("Partitions", `eosin explain ${quoted(name)} --as partition`, (facts) => html`
      ${row && html`<dl class="facts"><dt title=${TERMS["log end"]}>Log end</dt><dd>${number(row.log_end)}</dd>
        <dt title=${TERMS["high watermark"]}>High watermark</dt><dd>${number(row.high_watermark)}</dd>
        <dt title=${TERMS.LSO}>LSO</dt><dd>${number(row.last_stable)}</dd>
        <dt title=${TERMS.behind}>Behind</dt><dd>${number(behind(row))}</dd>
        <dt>Log start</dt><dd>${number(row.log_start)}</dd></dl>`}
      <p>${!store.broker?.cluster && html`<a href=${to("log", name)}>The log, batch by batch</a> | `}<a href=${to("records", name)}>Records</a></p>
      ${(facts.open?.length ?? 0) > 0 && html`<section><h2>Open here, the oldest first</h2><div class="wide"><table class="plain"><thead><tr><th scope="col">Transactional id</th><th scope="col">Producer</th><th scope="col" class="number">First offset</th><th scope="col">Time left</th></tr></thead>
        <tbody>${facts.open.map((each) => html`<tr><td>${each.transaction ? html`<a href=${to("transactions", each.transaction.transactional_id)}>${each.transaction.transactional_id}</a>` : "no coordinator knows it"}</td><td>${each.producer_id}/${each.producer_epoch}</td><td class="number">${number(each.first_offset)}</td><td>${each.transaction && html`<${Countdown} row=${each.transaction} now=${now} />`}</td></tr>`)}</tbody></table></div>
        ${store.broker?.has_actions && facts.open.filter((each) => !each.transaction).map((each) => html`<${AbortHanging} key=${each.first_offset} partition=${name} each=${each} />`)}</section>`}
      ${store.broker?.has_actions && row && row.is_led !== false && !row.is_internal && html`<section><h2>Actions</h2><${TestRecord} partitions=${[name]} /><${DeleteRecords} row=${row} /></section>`}`);
  }
}

/** Whether a reader that begins where the group has committed finds nothing there. */
const isOutOfRange = (each) => each.committed >= 0 && (each.committed < (each.log_start ?? 0) || each.committed > each.high_watermark);

export class Group extends Told {
  kind = "groups";

  evidence({ explained, facts }) {
    return (explained.evidence ?? []).filter((each) => !facts.partitions?.some(({ partition }) => each.startsWith(`${partition}: `)));
  }

  render({ name, now, store }) {
    return this.frame("Groups", `eosin explain ${quoted(name)} --as group --timeline`, (facts, explained) => html`
      <dl class="facts"><dt>State</dt><dd>${facts.state}${facts.generation ? `, generation ${number(facts.generation)}` : ""}${facts.epoch >= 0 ? `, epoch ${number(facts.epoch)}${facts.epoch > facts.assignment_epoch ? `, assignment of epoch ${number(facts.assignment_epoch)}` : ""}` : ""}</dd>
        ${facts.kind && html`<dt>Kind</dt><dd>${facts.kind}</dd>`}
        ${facts.protocol && html`<dt>Assigned by</dt><dd>${facts.protocol}</dd>`}
        ${facts.streams && html`<${StreamsFacts} told=${facts.streams} />`}</dl>
      <section><h2>Members</h2><${Members} facts=${facts} now=${now} isCluster=${Boolean(store.broker?.cluster)} /></section>
      ${store.broker?.has_actions && !facts.shared && !facts.streams && facts.seen_members?.length > 0 && html`<${RemoveMember} group=${name} members=${facts.seen_members} />`}
      ${facts.shared ? html`<section><h2>Partitions</h2><${SharedPartitions} parts=${facts.shared} /></section>` : this.committed(facts)}
      <${Timeline} events=${explained.timeline} />`);
  }

  committed(facts) {
    return html`<section><h2>Partitions</h2><div class="wide"><table class="plain"><thead><tr><th scope="col">Partition</th><th scope="col" class="number">Committed</th><th scope="col" class="number">LSO</th><th scope="col" class="number">Record lag</th><th scope="col" class="number">Markers</th><th scope="col" class="number">Undecided</th></tr></thead>
        <tbody>${(facts.partitions ?? []).map((each) => html`<tr><td><a href=${to("partitions", each.partition)}>${each.partition}</a>${each.pending ? " (waits for a transaction)" : ""}</td><td class=${`number${isOutOfRange(each) ? " gone" : ""}`} title=${isOutOfRange(each) ? `The log has ${number(each.log_start ?? 0)} to ${number(each.high_watermark)}: readers that begin here are told OFFSET_OUT_OF_RANGE.` : ""}>${each.committed < 0 ? html`<span class="quiet">nothing</span>` : number(each.committed)}</td><td class="number">${number(each.last_stable)}</td><td class="number">${each.committed < 0 ? "" : (each.records ?? -1) < 0 ? `≤ ${number(Math.max(0, each.last_stable - Math.max(each.committed, each.log_start ?? 0)))}` : number(each.records)}</td><td class="number">${number(each.control_records ?? 0)}</td><td class="number">${number(Math.max(0, each.high_watermark - each.last_stable))}</td></tr>`)}</tbody></table></div>
        ${!facts.partitions?.length && html`<p class="quiet">It has committed nothing.</p>`}</section>`;
  }
}
