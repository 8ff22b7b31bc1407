// One field for everything that the page knows: ids, clients, groups, members, topics, partitions, brokers. The key / leads to it.

import { Component } from "./vendor/preact.module.js";
import { html, to, topicOf } from "./parts.js";

const MOST = 12;

/** What matches, the names that begin with the text first: {kind, name, href}. Pure. */
export function found(tables, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const hits = [];
  const add = (kind, page, key, also = "", name = key) => {
    const at = name.toLowerCase().indexOf(wanted);
    if (at >= 0 || also.toLowerCase().includes(wanted)) hits.push({ kind, name, href: to(page, key), rank: at === 0 ? 0 : at > 0 ? 1 : 2 });
  };
  for (const row of tables.transactions.values()) add("transactional id", "transactions", row.key, `${row.client ?? ""} ${row.producer_id}`);
  for (const row of tables.groups.values()) {
    add("group", "groups", row.key);
    for (const member of row.named ?? []) add(`member of ${row.key}`, "groups", row.key, "", member);
  }
  for (const each of tables.broker.get("broker")?.nodes ?? []) add(`at ${each.address}`, "brokers", String(each.node_id), `${each.address} ${each.rack ?? ""}`, `broker ${each.node_id}`);
  for (const topic of new Set([...tables.partitions.keys()].map(topicOf))) add("topic", "topics", topic);
  for (const row of tables.partitions.values()) add("partition", "partitions", row.key);
  return hits.sort((one, other) => one.rank - other.rank || one.name.length - other.name.length || (one.name < other.name ? -1 : 1)).slice(0, MOST);
}

export class Search extends Component {
  constructor() {
    super();
    this.state = { text: "" };
  }

  componentDidMount() {
    this.onKey = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
      event.preventDefault();
      document.getElementById("search").focus();
    };
    document.addEventListener("keydown", this.onKey);
  }

  componentWillUnmount() {
    document.removeEventListener("keydown", this.onKey);
  }

  go(event) {
    event.preventDefault();
    const [first] = found(this.props.tables, this.state.text);
    if (!first) return;
    this.setState({ text: "" });
    location.hash = first.href;
  }

  render({ tables }, { text }) {
    const hits = found(tables, text);
    return html`<form class="search" role="search" onSubmit=${(event) => this.go(event)} onKeyDown=${(event) => event.key === "Escape" && this.setState({ text: "" })}>
      <input id="search" type="search" aria-label="Search everything" placeholder="Search ( / )" autocomplete="off" value=${text} onInput=${(event) => this.setState({ text: event.currentTarget.value })} />
      ${text.trim() && html`<ul>${hits.length ? hits.map((hit) => html`<li key=${`${hit.href} ${hit.name}`}><a href=${hit.href} onClick=${() => this.setState({ text: "" })}>${hit.name}</a> <span class="quiet">${hit.kind}</span></li>`) : html`<li class="quiet">Nothing of that name is shown here.</li>`}</ul>`}
    </form>`;
  }
}
