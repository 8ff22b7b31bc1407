// Begins: the stream, the pages by the address behind #, the theme, and one repaint for all that came meanwhile.

import { Component, render } from "./vendor/preact.module.js";
import { parted } from "./address.js";
import { Brokers, Events, Group, Groups, Overview, Partition, Partitions, Transaction, Transactions } from "./pages.js";
import { Log } from "./log.js";
import { Connections, Metrics } from "./more_pages.js";
import { html, Time } from "./parts.js";
import { OneRecord, Records } from "./records.js";
import { Search } from "./search.js";
import { Store } from "./store.js";
import { Topic, Topics } from "./topics.js";
import { plural, TERMS } from "./words.js";

const TICK_MS = 500;
const ANNOUNCE_MS = 5000;
const MENU = [["", "Overview"], ["transactions", "Transactions"], ["topics", "Topics"], ["partitions", "Partitions"], ["groups", "Groups"], ["events", "Events"], ["connections", "Connections"], ["metrics", "Metrics"]];
const ONLY_EOSIN = new Set(["events", "connections", "metrics", "log"]); // pages that Kafka's protocol cannot fill
const PAGES = { "": Overview, brokers: Brokers, transactions: Transactions, topics: Topics, partitions: Partitions, groups: Groups, events: Events, connections: Connections, metrics: Metrics };
const SINGLE = { brokers: Brokers, transactions: Transaction, topics: Topic, partitions: Partition, groups: Group, log: Log, records: Records, record: OneRecord };
const BELOW = { log: "partitions", records: "partitions", record: "partitions" }; // pages that the menu leads to by another one
const STATES = { connecting: "connecting", live: "live", lost: "connection lost", polling: "every 5 s: many pages watch this broker", token: "a token is needed" };

const store = new Store();
globalThis.eosinStore = store; // for tests and the curious

let visits = 0; // a link to the page that is shown begins it anew

function place() {
  const [page = "", ...name] = parted().path.split("/");
  let decoded = "";
  try { decoded = decodeURIComponent(name.join("/")); } catch { /* a broken link leads to the list */ }
  visits += 1;
  const isThere = Object.hasOwn(PAGES, page) || (Object.hasOwn(BELOW, page) && decoded);
  return isThere ? { page, name: decoded, visits } : { page: "", name: "", visits, isNowhere: true };
}

const Untold = ({ store }) => html`<h1>Not told here</h1><p>This is the console of the cluster at ${store.broker.cluster}, which is asked over Kafka's protocol. Only a broker with <code>eosin serve --console</code> has this page.</p>`;

/** Where the broker is, or the cluster that is asked over Kafka's protocol. */
const whereabouts = (broker) => (!broker ? "" : broker.cluster ? `cluster at ${broker.cluster}, ${plural(broker.brokers, "broker")}` : `broker ${broker.node_id}, ${broker.version}`);

const Nowhere = () => html`<h1>There is no such page</h1><p>The address leads nowhere. <a href="#/">The overview</a> shows what this broker does.</p>`;

function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

class SignIn extends Component {
  async send(event) {
    event.preventDefault();
    const isRight = await store.signIn(event.currentTarget.elements.token.value).catch(() => false);
    if (!isRight) this.setState({ error: `That is not ${store.tokenName}.` });
  }

  render(_, { error }) {
    return html`<form class="sign-in" onSubmit=${(event) => this.send(event)}><h1>A token is needed</h1><p class="quiet">It is ${store.tokenName}.</p>
      <label>Token <input name="token" type="password" autocomplete="off" required /></label><button>Look in</button>
      <p role="alert">${error ?? ""}</p></form>`;
  }
}

class Console extends Component {
  constructor() {
    super();
    this.state = { place: place() };
  }

  componentDidMount() {
    let isAsked = false;
    const repaint = () => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => { isAsked = false; this.forceUpdate(); announce(); });
    };
    store.listeners.add(repaint);
    setInterval(() => { if (!document.hidden && store.broker) repaint(); }, TICK_MS);
    addEventListener("hashchange", () => {
      if (location.hash === "#main") return;
      this.setState({ place: place() }, () => document.getElementById("main")?.focus({ preventScroll: true }));
      scrollTo(0, 0);
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? store.close() : store.open()));
  }

  turn() {
    const next = theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("eosin-theme", next); } catch { /* it lasts for this page */ }
    this.forceUpdate();
  }

  render(_, { place: { page, name, visits, isNowhere } }) {
    const isCluster = Boolean(store.broker?.cluster);
    const menu = isCluster ? MENU.filter(([path]) => !ONLY_EOSIN.has(path)) : MENU;
    const Page = isNowhere ? Nowhere : isCluster && ONLY_EOSIN.has(page) ? Untold : name && SINGLE[page] ? SINGLE[page] : PAGES[page];
    const above = BELOW[page] ?? page;
    document.title = isNowhere ? "No such page - Eosin" : `${name || (MENU.find((each) => each[0] === page)?.[1] ?? "Brokers")} - Eosin`;
    return html`<header>
        <a class="brand" href="#/">Eosin</a>
        <nav aria-label="Pages">${menu.map(([path, title]) => html`<a key=${path} href=${`#/${path}`} aria-current=${path === above && !isNowhere ? "page" : undefined}>${title}</a>`)}</nav>
        ${store.broker && html`<${Search} tables=${store.tables} />`}
        <span class=${`connection ${store.state}`} role="status" id="connection">${STATES[store.state]}</span>
        <a class="broker" href="#/brokers">${whereabouts(store.broker)}</a>
        <button onClick=${() => this.turn()}>${theme() === "dark" ? "Light" : "Dark"} mode</button>
      </header>
      ${store.state === "lost" && html`<p class="away" role="alert">The broker does not answer${store.broker ? html`; what stands here is of <${Time} ms=${store.now()} />` : ""}. The page goes on trying.</p>`}
      ${store.broker?.trouble && html`<p class="away" role="alert" id="trouble">The cluster does not tell everything: ${store.broker.trouble}. What stands here may be older; the page goes on trying.</p>`}
      <main id="main" tabindex="-1">${store.state === "token" ? html`<${SignIn} />` : html`<${Page} key=${`${page}/${name}/${visits}`} name=${name} store=${store} now=${store.now()} />`}</main>
      <footer><p>Times are in UTC, by ${store.broker?.cluster ? "the clock of the machine that asks" : "the broker's clock"}.</p><details><summary>What the words mean</summary><dl>${Object.entries(TERMS).map(([term, text]) => html`<dt key=${term}>${term}</dt><dd>${text}</dd>`)}</dl></details></footer>`;
  }
}

let announcedAt = 0;
let announced = null;

/** Tells screen readers of the newest event, at most once in five seconds. */
function announce() {
  if (Date.now() - announcedAt < ANNOUNCE_MS) return;
  let newest = null;
  for (const row of store.tables.events.values()) if (!newest || row.key > newest.key) newest = row;
  if (!newest || newest.key === announced) return;
  if (announced !== null) {
    document.getElementById("announcements").textContent = newest.sentence;
    announcedAt = Date.now();
  }
  announced = newest.key;
}

async function begin() {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", "/#/"); // the token stays in no history
    let token = given[1];
    try { token = decodeURIComponent(token); } catch { /* as it stands */ }
    await store.signIn(token).catch(() => false);
  }
  render(html`<${Console} />`, document.getElementById("console"));
  if (!store.source) store.open();
}

begin();
